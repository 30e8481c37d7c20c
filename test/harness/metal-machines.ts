/** A server and bare-metal hosts of a lab that it has taken over: reached over SSH, checked, on sale. */
import os from 'node:os'
import { readFileSync } from 'node:fs'
import { succeed } from './journey.ts'
import { relayPorts } from './machines.ts'
import { startMetalLab, type MetalLab, type MetalLabHost, type MetalLabOptions } from './metal-lab.ts'
import { testServer, type TestServer } from './server.ts'
import { waitFor } from './wait.ts'

export interface MetalMachines {
  readonly server: TestServer
  readonly lab: MetalLab
  close(): Promise<void>
}

export const METAL_REGION = 'us-central-1'
/** Wiped between tenants, whoever owns what is in it. */
export const SCRATCH = '/scratch'
const ADMIT_MS = 30_000

export async function startMetalMachines(
  options: MetalLabOptions & { env?: Readonly<Record<string, string>> },
): Promise<MetalMachines> {
  const lab = await startMetalLab(options)
  try {
    const env = { BERTH_ENGINES: 'private-cloud', BERTH_RELAY_PORTS: relayPorts(), ...options.env }
    const server = await testServer({ env })
    try {
      await priceMetal(server)
      for (const host of lab.hosts) {
        await host.exec(['mkdir', '-p', SCRATCH])
        await succeed(server.operator, 'POST', '/v2/operator/hosts', inventoryEntry(host))
      }
      for (const host of lab.hosts) await untilState(server, host.id, 'ready')
      return {
        server,
        lab,
        close: async () => {
          await server.close()
          await lab.close()
        },
      }
    } catch (error) {
      await server.close()
      throw error
    }
  } catch (error) {
    await lab.close()
    throw error
  }
}

/** As an operator writes it. The hosts share this machine's processors and memory. */
export function inventoryEntry(host: MetalLabHost): Record<string, unknown> {
  const { virtualCores, ramGb } = thisMachine()
  return {
    id: host.id,
    clusterName: 'lab-metal',
    region: METAL_REGION,
    gpuType: 'h100',
    gpuModel: 'NVIDIA-H100-SXM5-80GB',
    gpuRamMib: 81_559,
    gpuFormFactor: 'sxm5',
    networkType: 'ethernet',
    gpusTotal: 8,
    simulated: true,
    hostname: host.id,
    publicIp: host.address,
    privateIp: host.address,
    sshPort: host.port,
    user: host.user,
    privateKey: host.privateKey,
    hostKey: host.hostKeyFingerprint,
    scratch: [SCRATCH],
    hardware: {
      cpuModel: 'Lab',
      cpuCores: virtualCores,
      virtualCores,
      ramGb,
      storageGb: 10,
      gpuClockMhz: 1_980,
      gpuComputePower: 989,
      gpuInterface: 'SXM5',
    },
  }
}

function thisMachine(): { virtualCores: number; ramGb: number } {
  const kib = Number.parseInt(/^MemTotal:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1] ?? '0', 10)
  return { virtualCores: os.cpus().length, ramGb: Math.max(1, Math.round(kib / 1_048_576)) }
}

export async function priceMetal(server: TestServer): Promise<void> {
  const price = { region: METAL_REGION, gpuType: 'h100', gpuCount: 8, perGpuHourUsd: '2.00', enabled: true }
  await succeed(server.operator, 'PUT', '/v2/operator/price-book', {
    gpus: [{ machineType: 'bare-metal', networkType: 'ethernet', ...price }],
    storage: [{ region: METAL_REGION, perGbHourUsd: '0.0001', enabled: true }],
    reason: 'for the test',
  })
}

export async function untilState(server: TestServer, hostId: string, state: string): Promise<void> {
  let last = ''
  await waitFor(
    () => `host ${hostId} is ${state}: ${last}`,
    async () => {
      const { hosts } = await succeed(server.operator, 'GET', '/v2/operator/hosts?limit=100')
      const host = hosts.find((one: { id: string }) => one.id === hostId)
      last = JSON.stringify(host)
      return host?.state === state
    },
    ADMIT_MS,
  )
}
