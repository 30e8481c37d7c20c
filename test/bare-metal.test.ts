/** Driver conformance of bare metal over SSH, on hosts with their own root that really reboot between tenants. */
import { afterAll, beforeAll } from 'vitest'
import { systemClock } from '../src/base/instant.ts'
import { sampleSpec } from '../src/engines/conformance-bench.ts'
import { driverConformance } from '../src/engines/conformance.ts'
import type { HostWorld } from '../src/engines/host/world.ts'
import { metalDriver } from '../src/engines/metal/driver.ts'
import { postgresHostWorld } from '../src/store/host-world.ts'
import { faultyWorld } from './harness/host-world.ts'
import { METAL_REGION, startMetalMachines, type MetalMachines } from './harness/metal-machines.ts'
import { pollDelay, waitFor } from './harness/wait.ts'

const HOSTS = 3
let machines: MetalMachines

beforeAll(async () => {
  machines = await startMetalMachines({ hosts: HOSTS })
}, 120_000)
afterAll(() => machines.close())

driverConformance(
  'private-cloud',
  async () => {
    const { server, lab } = machines
    const world: HostWorld = postgresHostWorld(server.app.database, { from: 31_000, to: 32_000 })
    const { driver, faults } = faultyWorld(world, (faulty) => metalDriver({ world: faulty, clock: systemClock }))
    let orders = 0
    let isVanishing = false
    /** Simulates someone who has SSH keys to the hosts. */
    const removeMark = async (): Promise<void> => {
      const [node] = (await world.listWorkloads('private-cloud', '')).flatMap(({ nodes }) => nodes)
      if (node?.state !== 'running') return
      await lab.hosts.find(({ id }) => id === node.hostId)?.exec(['rm', '/var/lib/berth/tenant'])
      isVanishing = false
    }
    return {
      driver,
      spec: (overrides = {}) => {
        orders += 1
        return sampleSpec({
          kind: 'bare-metal',
          region: METAL_REGION,
          gpuCount: 8,
          nodes: [{ machineId: lab.hosts[orders % HOSTS]?.id ?? '', gpuIndexes: [0, 1, 2, 3, 4, 5, 6, 7] }],
          ...overrides,
        })
      },
      advance: async () => {
        if (isVanishing) await removeMark()
        await pollDelay()
      },
      faults: {
        ...faults,
        'no-capacity': { spec: { nodes: [{ machineId: 'left-long-ago', gpuIndexes: [0] }] } },
        vanish: { arm: () => void (isVanishing = true) },
      },
      // The next test starts when the hosts are clean again.
      dispose: async () => {
        for (const { id } of await world.listWorkloads('private-cloud', '')) await world.requestDestroy(id)
        await waitFor('all hosts are free', async () => (await world.listWorkloads('private-cloud', '')).length === 0)
      },
    }
  },
  {
    parts: ['machines', 'reboot'],
    cannot: {
      'list-lag': 'what is wanted is in the database that the list is read from',
      'boot-fails': 'a host that cannot be taken over is tested with its reason in the journey',
    },
  },
)
