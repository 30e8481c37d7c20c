/** Driver conformance of containers on hosts with our agent: real agents, Docker daemons and images. */
import { afterAll, beforeAll } from 'vitest'
import { systemClock } from '../src/base/instant.ts'
import { sampleSpec, type ConformanceHarness } from '../src/drivers/conformance-bench.ts'
import { driverConformance } from '../src/drivers/conformance.ts'
import { hostDriver } from '../src/drivers/host/driver.ts'
import type { HostWorld } from '../src/drivers/host/world.ts'
import { postgresHostWorld } from '../src/store/host/host-world.ts'
import { faultyWorld } from './harness/host-world.ts'
import { startMachines, type Machines } from './lab/machines.ts'
import { pollDelay } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('docker', 'build')

const HOSTS = 2
let machines: Machines

beforeAll(async () => {
  machines = await startMachines({ hosts: HOSTS })
}, 120_000)
afterAll(() => machines.close())

driverConformance(
  'host, with containers',
  async () => {
    const { server, hosts, registry } = machines
    const world: HostWorld = postgresHostWorld(server.app.database, { from: 31_000, to: 32_000 })
    const { driver, faults } = faultyWorld(world, (faulty) =>
      hostDriver({ world: faulty, clock: systemClock, relayHost: server.url }),
    )
    const image = { name: registry.images.busybox.name, tag: registry.images.busybox.tag }
    let removing = false
    let orders = 0
    const spec: ConformanceHarness['spec'] = (overrides = {}) => {
      orders += 1
      const machineId = hosts[orders % HOSTS]?.id ?? ''
      return sampleSpec({
        kind: 'container',
        gpuCount: 1,
        nodes: [{ machineId, gpuIndexes: [0] }],
        resources: { cpuModel: 'any', cpuCount: 1, ramGb: 1, storageGb: 10 },
        image,
        ...overrides,
      })
    }
    return {
      driver,
      spec,
      advance: async () => {
        if (removing) await removeContainers(machines)
        await pollDelay()
      },
      faults: {
        ...faults,
        'no-capacity': { spec: { nodes: [{ machineId: 'left-long-ago', gpuIndexes: [0] }] } },
        'boot-fails': { spec: { image: { name: `${registry.address}/no/such-image`, tag: '1' } } },
        vanish: { arm: () => void (removing = true) },
      },
      dispose: async () => {},
    }
  },
  {
    parts: ['machines', 'power', 'reboot'],
    cannot: {
      'list-lag': 'what is wanted is in the database that the list is read from',
    },
  },
)

/** Simulates someone with root access to the host. */
async function removeContainers({ hosts }: Machines): Promise<void> {
  for (const { docker } of hosts) {
    const ids = (await docker.docker('ps', '-q', '--filter', 'label=berth.id')).split('\n').filter(Boolean)
    for (const id of ids) {
      await docker.docker('rm', '-f', id).catch((error: unknown) => {
        // The host may be about to end what an earlier test left behind.
        if (!/already in progress|No such container/.test(String(error))) throw error
      })
    }
  }
}
