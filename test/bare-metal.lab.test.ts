/**
 * Driver conformance of bare metal over SSH, on hosts with their own root that really reboot between tenants. Volumes are
 * those of a real file server, but the hosts may have no NFS: there bare-metal-volumes.test.ts mounts them for real.
 */
import { afterAll, beforeAll, describe } from 'vitest'
import { systemClock } from '../src/base/instant.ts'
import type { RentalSpec } from '../src/domain/rental.ts'
import { sampleSpec } from '../src/drivers/conformance-bench.ts'
import { driverConformance } from '../src/drivers/conformance.ts'
import type { HostWorld } from '../src/drivers/host/world.ts'
import { metalDriver } from '../src/drivers/metal/driver.ts'
import { folderDriver } from '../src/drivers/metal/volumes.ts'
import type { FileServer } from '../src/runtimes/storage/file-server.ts'
import { postgresHostWorld } from '../src/store/host/host-world.ts'
import { faultyWorld } from './harness/host-world.ts'
import { METAL_REGION, startMetalMachines, type MetalMachines } from './lab/metal-machines.ts'
import { startStorageLab, whyNoStorageLab, type StorageLab } from './lab/storage-lab.ts'
import { pollDelay, waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('docker', 'metal', 'nfs', 'build')

const HOSTS = 3
const reason = whyNoStorageLab()
/** Volumes are larger than the disks of test machines, but nearly empty. */
const OVERCOMMIT = 100
let machines: MetalMachines

beforeAll(async () => {
  machines = await startMetalMachines({ hosts: HOSTS })
}, 120_000)
afterAll(() => machines.close())

const spec = (order: number): RentalSpec =>
  sampleSpec({
    kind: 'bare-metal',
    region: METAL_REGION,
    gpuCount: 8,
    nodes: [{ machineId: machines.lab.hosts[order % HOSTS]?.id ?? '', gpuIndexes: [0, 1, 2, 3, 4, 5, 6, 7] }],
  })
const openWorld = (): HostWorld => postgresHostWorld(machines.server.app.database, { from: 31_000, to: 32_000 })
/** The next test starts when the hosts are clean again. */
async function freeHosts(world: HostWorld): Promise<void> {
  for (const { id } of await world.listWorkloads('private-cloud', '')) await world.requestDestroy(id)
  await waitFor('all hosts are free', async () => (await world.listWorkloads('private-cloud', '')).length === 0)
}

driverConformance(
  'private-cloud',
  async () => {
    const { lab } = machines
    const world = openWorld()
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
      spec: (overrides = {}) => ({ ...spec((orders += 1)), ...overrides }),
      advance: async () => {
        if (isVanishing) await removeMark()
        await pollDelay()
      },
      faults: {
        ...faults,
        'no-capacity': { spec: { nodes: [{ machineId: 'left-long-ago', gpuIndexes: [0] }] } },
        vanish: { arm: () => void (isVanishing = true) },
      },
      dispose: () => freeHosts(world),
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

describe.skipIf(reason !== null)(`with a file server${reason === null ? '' : ` (skipped: ${reason})`}`, () => {
  let storage: StorageLab
  let files: FileServer
  beforeAll(async () => {
    storage = startStorageLab()
    files = await storage.open({ overcommit: OVERCOMMIT })
  })
  afterAll(() => storage?.close())

  driverConformance(
    'private-cloud',
    async () => {
      const world = openWorld()
      const { driver, faults } = faultyWorld(world, (faulty) =>
        metalDriver({ world: faulty, clock: systemClock, volumes: folderDriver(faulty, files) }),
      )
      let orders = 0
      return {
        driver,
        spec: (overrides = {}) => ({ ...spec((orders += 1)), ...overrides }),
        advance: pollDelay,
        faults,
        dispose: async () => {
          await freeHosts(world)
          const engine = folderDriver(world, files)
          const { signal } = new AbortController()
          for (const { externalId } of await engine.list('', signal)) await engine.destroy(externalId, signal)
        },
      }
    },
    { parts: ['volumes'] },
  )
})
