/**
 * A server with real hosts for virtual machines, each with its own network namespace and agent process; the guests run
 * on QEMU. All start from the small image that tests share.
 */
import fs from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { startAgentProcess, type AgentProcess } from './agent-process.ts'
import { startHostNetwork, type HostNetwork, type NetworkHost } from './host-network.ts'
import { succeed } from '../harness/journey.ts'
import { killProcess, removeFolder } from '../harness/leftover.ts'
import { makeCustomer, type Customer } from './machines.ts'
import { qemuPids, smallImage, smallImageFolder, whyNoQemu } from './qemu-lab.ts'
import { testServer, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

export const VM_REGION = 'us-central-1'
const JOIN_MS = 30_000

export interface VmHost extends NetworkHost {
  readonly id: string
  agent(): AgentProcess
  /** Resolves once it is connected. */
  startAgent(): Promise<void>
  stopAgent(how: 'stop' | 'kill'): Promise<void>
  /** Process ids of QEMU for one workload, or for all. */
  pids(workloadId?: string): number[]
  /** Of one workload, or of all. */
  machineFolder(workloadId?: string): string
  readonly volumeFolder: string
  volumeFile(externalId: string): string
}

export interface VmMachines {
  readonly server: TestServer
  readonly network: HostNetwork
  readonly hosts: readonly VmHost[]
  customer(): Promise<Customer>
  close(): Promise<void>
}

/** The reason such hosts cannot run here; undefined if they can. */
export function whyNoVmHosts(): string | undefined {
  return process.getuid?.() === 0 ? whyNoQemu('ip', 'nft') : 'network namespaces need root'
}

export async function startVmMachines(options: {
  readonly hosts: number
  readonly env?: Readonly<Record<string, string>>
}): Promise<VmMachines> {
  const undo: Array<() => Promise<unknown>> = []
  const close = async (): Promise<void> => {
    const failures: unknown[] = []
    for (const step of undo.splice(0).toReversed()) await step().catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw new AggregateError(failures, 'the machines were not taken down in whole')
  }
  try {
    await smallImage()
    const network = await startHostNetwork()
    undo.push(() => network.close())
    const server = await testServer({
      env: {
        BERTH_HOST: network.bridgeAddress,
        BERTH_DRIVERS: 'host',
        ...options.env,
      },
    })
    undo.push(() => server.close())
    const folder = await fs.mkdtemp(path.join(os.tmpdir(), 'berth-vms-'))
    undo.push(() => removeFolder(folder))
    const hosts: VmHost[] = []
    for (let n = 1; n <= options.hosts; n += 1) {
      hosts.push(await addVmHost(server, await network.addHost(`vm-${n}`), path.join(folder, `vm-${n}`), undo))
    }
    let customers = 0
    const customer = (): Promise<Customer> => makeCustomer(server, path.join(folder, `key-${(customers += 1)}`))
    return { server, network, hosts, customer, close }
  } catch (error) {
    await close()
    throw error
  }
}

async function addVmHost(
  server: TestServer,
  host: NetworkHost,
  dir: string,
  undo: Array<() => Promise<unknown>>,
): Promise<VmHost> {
  const id = path.basename(dir)
  await fs.mkdir(dir, { mode: 0o700 })
  await fs.symlink(smallImageFolder(), path.join(dir, 'small-image'))
  const { token } = await succeed(server.operator, 'POST', '/v2/supply/join-tokens', {})
  const args = [
    ['--server', server.url, '--token', token, '--name', id, '--dir', dir, '--cluster', 'lab-vm'],
    ['--offer', 'virtual-machine', '--region', VM_REGION, '--simulate-gpus', 'h100:8'],
  ].flat()
  const machineFolder = (workloadId = ''): string => path.join(dir, 'machines', 'vms', workloadId)
  const volumeFolder = path.join(dir, 'machines', 'volumes')
  const pids = (workloadId?: string): number[] => qemuPids(path.join(machineFolder(workloadId), '/'))
  undo.push(async () => {
    for (const pid of pids()) killProcess(pid)
    await waitFor('the machines to be gone', () => pids().length === 0)
  })
  let agent: AgentProcess | undefined
  const running = (): AgentProcess => {
    if (agent === undefined) throw new Error(`the agent of ${id} does not run`)
    return agent
  }
  undo.push(async () => agent?.kill())
  const startAgent = async (): Promise<void> => {
    const started = startAgentProcess({ netns: host.netns, args })
    agent = started
    const what = (): string => `${id} is connected:\n${started.output()}`
    await waitFor(what, () => started.output().includes(`Connected to ${server.url}.`), JOIN_MS)
  }
  await startAgent()
  await waitFor(
    () => `${id} is on sale:\n${running().output()}`,
    async () => {
      const { machines } = await succeed(server.operator, 'GET', '/v2/operator/machines?limit=1000')
      return machines.some((one: { id: string; status: string }) => one.id === id && one.status === 'node_ready')
    },
    JOIN_MS,
  )
  return {
    ...host,
    id,
    agent: running,
    startAgent,
    stopAgent: async (how) => {
      await running()[how]()
      agent = undefined
    },
    pids,
    machineFolder,
    volumeFolder,
    volumeFile: (externalId) => path.join(volumeFolder, `${externalId}.qcow2`),
  }
}
