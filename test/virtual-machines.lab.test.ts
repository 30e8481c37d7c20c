/**
 * Driver conformance of virtual machines on hosts with our agent: a real agent, real QEMU guests and disks that are
 * really plugged in. Booting a guest costs seconds of CPU time, so only two run at a time.
 */
import { afterAll, beforeAll, describe, vi } from 'vitest'
import { systemClock } from '../src/base/instant.ts'
import { sampleSpec, type ConformanceHarness } from '../src/drivers/conformance-bench.ts'
import { driverConformance } from '../src/drivers/conformance.ts'
import { hostDriver } from '../src/drivers/host/driver.ts'
import type { HostWorld } from '../src/drivers/host/world.ts'
import { postgresHostWorld } from '../src/store/host/host-world.ts'
import { faultyWorld } from './harness/host-world.ts'
import { killProcess, removeFolder } from './harness/leftover.ts'
import { startVmMachines, VM_REGION, whyNoVmHosts, type VmHost, type VmMachines } from './lab/vm-machines.ts'
import { pollDelay, waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('docker', 'qemu', 'build')

const BOOT_MS = 180_000
vi.setConfig({ testTimeout: BOOT_MS, hookTimeout: BOOT_MS })

const why = whyNoVmHosts()
describe.skipIf(why !== undefined)(`hosts${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let machines: VmMachines
  let host: VmHost
  /** One per GPU; each order takes the next. */
  const GPUS = 8

  beforeAll(async () => {
    machines = await startVmMachines({ hosts: 1 })
    host = machines.hosts[0] as VmHost
  })
  afterAll(() => machines.close())

  driverConformance(
    'host, with virtual machines',
    async () => {
      const { server } = machines
      const world: HostWorld = postgresHostWorld(server.app.database, { from: 31_000, to: 32_000 })
      const { driver, faults } = faultyWorld(world, (faulty) =>
        hostDriver({
          world: faulty,
          clock: systemClock,
          relayHost: server.url,
          overcommit: 1_000,
          sellSimulated: true,
        }),
      )
      let isVanishing = false
      let orders = 0
      const spec: ConformanceHarness['spec'] = (overrides = {}) => {
        orders += 1
        return sampleSpec({
          region: VM_REGION,
          gpuCount: 1,
          nodes: [{ machineId: host.id, gpuIndexes: [orders % GPUS] }],
          resources: { cpuModel: 'any', cpuCount: 1, ramGb: 0.25, storageGb: 2 },
          ...overrides,
        })
      }
      return {
        driver,
        spec,
        advance: async () => {
          if (isVanishing) isVanishing = !(await destroyRunning(world, host))
          await pollDelay()
        },
        faults: {
          ...faults,
          'no-capacity': { spec: { nodes: [{ machineId: 'left-long-ago', gpuIndexes: [0] }] } },
          'boot-fails': { spec: { nodes: [{ machineId: host.id, gpuIndexes: [GPUS] }] } },
          vanish: { arm: () => void (isVanishing = true) },
        },
        // A machine left over from a test would slow down the next one.
        dispose: async () => {
          for (const { id } of await world.listWorkloads('host', '')) await world.requestDestroy(id)
          await waitFor('all guests are gone', async () => (await world.listWorkloads('host', '')).length === 0)
        },
      }
    },
    {
      // Each start boots a guest; src/runtimes/qemu/runtime.lab.test.ts turns them off and on.
      parts: ['machines', 'volumes'],
      volumesAreDisks: true,
      cannot: {
        'list-lag': 'what is wanted is in the database that the list is read from',
      },
    },
  )
})

/**
 * Simulates someone with root access to the host: kills the process, then removes its disk. False: nothing runs yet.
 */
async function destroyRunning(world: HostWorld, host: VmHost): Promise<boolean> {
  const running = (await world.listWorkloads('host', '')).find(({ nodes: [node] }) => node?.state === 'running')
  if (running === undefined) return false
  for (const pid of host.pids(running.id)) killProcess(pid)
  // QEMU and the agent may still write there.
  await removeFolder(host.machineFolder(running.id))
  return true
}
