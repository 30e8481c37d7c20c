/** A server with bare-metal lab hosts it has taken over: reached over SSH, checked and on sale. */
import { readFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { testDatabase } from '../harness/database.ts'
import { ownPorts, relayPorts } from '../harness/own-port.ts'
import { succeed } from '../harness/journey.ts'
import { removeFolder } from '../harness/leftover.ts'
import { makeCustomer, type Customer } from './machines.ts'
import { startMetalLab, type MetalLab, type MetalLabHost, type MetalLabOptions } from './metal-lab.ts'
import { testServer, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

export interface MetalMachines {
  /** The current server. Its address and keys survive a restart. */
  readonly server: TestServer
  readonly lab: MetalLab
  /** With $100 and an SSH key pair. */
  customer(): Promise<Customer>
  /** Closes the server and opens another on the same database. `between` runs while there is none. */
  restart(between: () => void | Promise<void>): Promise<void>
  close(): Promise<void>
}

export const METAL_REGION = 'us-central-1'
/** Wiped between tenants, whoever owns the files. */
export const SCRATCH = '/scratch'
const ADMIT_MS = 30_000

export async function startMetalMachines(options: MetalLabOptions): Promise<MetalMachines> {
  const undo: Array<() => Promise<unknown>> = []
  const close = async (): Promise<void> => {
    const failures: unknown[] = []
    for (const step of undo.splice(0).toReversed()) await step().catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw new AggregateError(failures, 'the machines were not taken down in whole')
  }
  try {
    const lab = await startMetalLab(options)
    undo.push(() => lab.close())
    const database = await testDatabase()
    undo.push(() => database.drop())
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-metal-keys-'))
    undo.push(() => removeFolder(folder))
    const env = {
      BERTH_DRIVERS: 'private-cloud',
      BERTH_RELAY_PORTS: relayPorts(),
      BERTH_PORT: String(ownPorts()),
    }
    const first = await testServer({ env, databaseUrl: database.url })
    let server = first
    undo.push(() => server.close())
    await priceMetal(server)
    for (const host of lab.hosts) {
      await host.exec(['mkdir', '-p', SCRATCH])
      await succeed(server.operator, 'POST', '/v2/operator/hosts', inventoryEntry(host))
    }
    for (const host of lab.hosts) await untilState(server, host.id, 'ready')
    let customers = 0
    return {
      get server() {
        return server
      },
      lab,
      customer: () => makeCustomer(server, path.join(folder, `key-${(customers += 1)}`)),
      restart: async (between) => {
        await server.close()
        await between()
        const next = await testServer({ env, databaseUrl: database.url })
        server = { ...next, operatorKey: first.operatorKey, operator: first.operator }
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** As an operator writes it. The hosts share this machine's CPUs and memory. */
export function inventoryEntry(host: MetalLabHost): Record<string, unknown> {
  const { id, address, port, user, privateKey, hostKeyFingerprint: hostKey } = host
  return metalEntry({ id, address, privateKey, ...thisMachine() }, { sshPort: port, user, hostKey, scratch: [SCRATCH] })
}

interface DeclaredHost {
  readonly id: string
  readonly address: string
  readonly privateKey: string
  readonly processors: number
  readonly ramGb: number
}

export function metalEntry(host: DeclaredHost, more: object = {}): Record<string, unknown> {
  const { id, address, privateKey, processors, ramGb } = host
  return {
    id,
    clusterName: 'lab-metal',
    region: METAL_REGION,
    gpuType: 'h100',
    gpuModel: 'NVIDIA-H100-SXM5-80GB',
    gpuRamMib: 81_559,
    gpuFormFactor: 'sxm5',
    networkType: 'ethernet',
    gpusTotal: 8,
    simulated: true,
    hostname: id,
    publicIp: address,
    privateIp: address,
    privateKey,
    hardware: {
      cpuModel: 'Lab',
      cpuCores: processors,
      virtualCores: processors,
      ramGb,
      storageGb: 10,
      gpuClockMhz: 1_980,
      gpuComputePower: 989,
      gpuInterface: 'SXM5',
    },
    ...more,
  }
}

function thisMachine(): { processors: number; ramGb: number } {
  const kib = Number.parseInt(/^MemTotal:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1] ?? '0', 10)
  return { processors: os.cpus().length, ramGb: Math.max(1, Math.round(kib / 1_048_576)) }
}

export async function priceMetal(server: TestServer): Promise<void> {
  const price = { region: METAL_REGION, gpuType: 'h100', gpuCount: 8, perGpuHourUsd: '2.00', enabled: true }
  await succeed(server.operator, 'PUT', '/v2/operator/price-book', {
    gpus: [{ machineType: 'bare-metal', networkType: 'ethernet', ...price }],
    storage: [{ region: METAL_REGION, perGbHourUsd: '0.0001', enabled: true }],
    reason: 'for the test',
  })
}

export async function untilState(
  server: TestServer,
  hostId: string,
  state: string,
  timeoutMs = ADMIT_MS,
): Promise<void> {
  let last = ''
  await waitFor(
    () => `host ${hostId} is ${state}: ${last}`,
    async () => {
      const { hosts } = await succeed(server.operator, 'GET', '/v2/operator/hosts?limit=100')
      const host = hosts.find((one: { id: string }) => one.id === hostId)
      last = JSON.stringify(host)
      return host?.state === state
    },
    timeoutMs,
  )
}
