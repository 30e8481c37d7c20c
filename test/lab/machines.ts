/**
 * A server with real hosts, each with its own Docker daemon, network namespace and agent process as on separate
 * machines, and a customer with money and an SSH key pair.
 */
import { execFile } from 'node:child_process'
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { agentProgram, startAgentProcess, type AgentProcess } from './agent-process.ts'
import { startDockerLab, unmountAndRemove, type DockerLab } from './docker-lab.ts'
import { startHostNetwork, type HostNetwork } from './host-network.ts'
import { succeed } from '../harness/journey.ts'
import { relayPorts } from '../harness/own-port.ts'
import { startRegistryLab, type RegistryLab } from './registry-lab.ts'
import { testServer, type Call, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

export interface Ran {
  readonly code: number | null
  readonly out: string
  readonly error: string
}

export interface ContainerHost {
  readonly id: string
  readonly docker: DockerLab
  agent(): AgentProcess
  /** The agent's state folder. */
  readonly dir: string
  /** Resolves once it is connected. `kept`: starts it with no option but its folder. */
  startAgent(options?: 'kept'): Promise<void>
  stopAgent(how: 'stop' | 'kill'): Promise<void>
  /** `berth agent …` next to the running agent. */
  tellAgent(...command: string[]): Promise<Ran>
  /** Names of our containers and networks there, including ended ones. */
  ours(): Promise<string[]>
}

export interface HostOptions {
  /** Absent: it belongs to the operator. */
  readonly token?: string
  readonly gpus?: string
  /** Its own small disk for images and containers. */
  readonly diskMb?: number
  /** Its supplier chooses no default image, and it cannot reach the registry of the usual one. */
  readonly hasNoImage?: true
  /** Extra arguments for `berth agent run`. */
  readonly args?: readonly string[]
}

export type MachineServer = Pick<TestServer, 'url' | 'operator' | 'anonymous' | 'account'>

export interface Machines<Server extends MachineServer = TestServer> {
  readonly server: Server
  readonly network: HostNetwork
  readonly registry: RegistryLab
  readonly hosts: readonly ContainerHost[]
  addHost(options?: HostOptions): Promise<ContainerHost>
  /** A customer with $100 and a key. */
  customer(): Promise<Customer>
  close(): Promise<void>
}

export interface Customer {
  readonly id: string
  readonly key: string
  readonly call: Call
  readonly keyFile: string
  /** The system's SSH client with this customer's key, for a printed `sshCommand` or an address. */
  ssh(sshCommand: string, ...command: string[]): Promise<Ran>
}

const JOIN_MS = 30_000
const SSH_MS = 100_000

interface MachinesOptions {
  readonly hosts: number
  readonly gpus?: string
  /** The hosts can be nodes of groups. */
  readonly inGroups?: boolean
  readonly env?: Readonly<Record<string, string>>
}

export function startMachines(options: MachinesOptions): Promise<Machines> {
  return startMachinesOf(options, (env) => testServer({ env }))
}

/** For another kind of server: gets the server's settings, and closes it with the machines. */
export async function startMachinesOf<Server extends MachineServer & { close(): Promise<void> }>(
  options: MachinesOptions,
  startServer: (env: Readonly<Record<string, string>>) => Promise<Server>,
): Promise<Machines<Server>> {
  const undo: Array<() => Promise<unknown>> = []
  const close = async (): Promise<void> => {
    const failures: unknown[] = []
    for (const step of undo.splice(0).toReversed()) await step().catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw new AggregateError(failures, 'the machines were not taken down in whole')
  }
  try {
    const network = await startHostNetwork()
    undo.push(() => network.close())
    const registry = await startRegistryLab(network.bridgeAddress)
    undo.push(() => registry.close())
    const server = await startServer({
      BERTH_HOST: network.bridgeAddress,
      BERTH_DRIVERS: 'host',
      BERTH_RELAY_PORTS: relayPorts(),
      ...options.env,
    })
    undo.push(() => server.close())
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-machines-'))
    // Volumes of a test that failed may still be mounted.
    undo.push(() => unmountAndRemove(folder))
    let names = 0
    const addHost = (more: HostOptions = {}): Promise<ContainerHost> => {
      const gpus = more.gpus ?? options.gpus ?? 'rtx4090:2'
      return addContainerHost({ server, network, registry, folder, undo }, `lab-${(names += 1)}`, {
        ...more,
        gpus,
        inGroups: options.inGroups === true,
      })
    }
    const hosts = await Promise.all(Array.from({ length: options.hosts }, () => addHost()))
    let customers = 0
    return {
      server,
      network,
      registry,
      hosts,
      addHost,
      customer: () => makeCustomer(server, path.join(folder, `key-${(customers += 1)}`)),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

interface HostSurroundings {
  readonly server: MachineServer
  readonly network: HostNetwork
  readonly registry: RegistryLab
  readonly folder: string
  readonly undo: Array<() => Promise<unknown>>
}

async function addContainerHost(
  { server, network, registry, folder, undo }: HostSurroundings,
  id: string,
  options: HostOptions & { gpus: string; inGroups: boolean },
): Promise<ContainerHost> {
  const disk = options.diskMb === undefined ? {} : { diskMb: options.diskMb }
  const docker = await startDockerLab({ name: id, network, registry, ...disk })
  undo.push(() => docker.close())
  const dir = path.join(folder, id)
  const token = options.token ?? (await succeed(server.operator, 'POST', '/v2/supply/join-tokens', {})).token
  const joins = ['--server', server.url, '--token', token, '--name', id, '--dir', dir]
  const sells = ['--cluster', 'lab', '--price', '0.40', '--simulate-gpus', options.gpus]
  const runs = ['--docker-socket', docker.socketPath, '--allow-registry', network.bridgeAddress]
  const { name, tag } = registry.images.busybox
  const image = options.hasNoImage === true ? [] : ['--image', `${name}:${tag}`]
  const groups = options.inGroups ? ['--cluster-address', docker.address, '--trusted-lan'] : []
  const args = [...joins, ...sells, ...runs, ...image, ...groups, ...(options.args ?? [])]
  let agent: AgentProcess | undefined
  const running = (): AgentProcess => {
    if (agent === undefined) throw new Error(`the agent of ${id} does not run`)
    return agent
  }
  const startAgent = async (how?: 'kept'): Promise<void> => {
    const started = startAgentProcess({ netns: docker.netns, args: how === 'kept' ? ['--dir', dir] : args })
    agent = started
    const what = (): string => `${id} is connected:\n${started.output()}`
    await waitFor(what, () => started.output().includes(`Connected to ${server.url}.`), JOIN_MS)
  }
  undo.push(async () => agent?.kill())
  await startAgent()
  await waitFor(
    () => `${id} is on sale:\n${running().output()}`,
    async () => {
      const listed = await succeed(server.anonymous, 'POST', '/v1/marketplace', { filters: { available_only: true } })
      return listed.instances.some((one: { id: string }) => one.id === id)
    },
    JOIN_MS,
  )
  const list = async (format: string, ...what: string[]): Promise<string[]> =>
    (await docker.docker(...what, '--filter', 'label=berth.tag', '--format', format)).split('\n').filter(Boolean)
  return {
    id,
    docker,
    dir,
    agent: running,
    startAgent,
    stopAgent: async (how) => {
      await running()[how]()
      agent = undefined
    },
    tellAgent: (...command) => run(process.execPath, [agentProgram(), 'agent', ...command, '--dir', dir]),
    ours: async () => [...(await list('{{.Names}}', 'ps', '-a')), ...(await list('{{.Name}}', 'network', 'ls'))],
  }
}

export async function makeCustomer(server: MachineServer, keyFile: string): Promise<Customer> {
  await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'customer', '-f', keyFile])
  const { id, key, call } = await server.account({ usd: '100', sshKey: false })
  const publicKey = (await run('cat', [`${keyFile}.pub`])).out.trim()
  await succeed(call, 'POST', '/v2/ssh-keys', { name: 'own', publicKey })
  return {
    id,
    key,
    call,
    keyFile,
    ssh: (sshCommand, ...command) => {
      const [program = 'ssh', ...where] = sshCommand.split(' ')
      return run(program, [...sshOptions(keyFile), ...where, ...command])
    },
  }
}

/** No prompts can be answered, and a lab's host keys are new each time. */
export function sshOptions(keyFile: string): string[] {
  const settings = [
    'BatchMode=yes',
    'IdentitiesOnly=yes',
    'StrictHostKeyChecking=no',
    'UserKnownHostsFile=/dev/null',
    'LogLevel=ERROR',
    'ConnectTimeout=60',
  ]
  return ['-F', '/dev/null', '-i', keyFile, ...settings.flatMap((one) => ['-o', one])]
}

export function run(program: string, args: readonly string[]): Promise<Ran> {
  return new Promise((resolve) => {
    const child = execFile(program, [...args], { timeout: SSH_MS }, (_, out, error) =>
      resolve({ code: child.exitCode, out, error }),
    )
  })
}
