import { manualClock } from '../../../test/sim/clock.ts'
import { volumeConformance } from '../conformance-volumes.ts'
import { mockDriver } from './driver.ts'
import { memoryWorld } from './world.ts'

volumeConformance('mock', async () => {
  const clock = manualClock()
  const world = memoryWorld()
  const { volumes, listLagMs } = mockDriver({ world, clock, destroyMs: 0 })
  return {
    engine: volumes,
    region: 'us-central-1',
    sizeGb: 256,
    settle: async () => clock.advance(listLagMs),
    // Faults are part of the order.
    fill: async () => 'fault-no-capacity',
    breakCreates: async () => 'fault-create-lost',
    repair: async () => {},
    lose: (externalId) => world.markVolumeGone(externalId, clock.now()),
    traces: async () => (await world.listVolumes('', clock.now())).map((one) => one.externalId),
    dispose: async () => {},
  }
})
