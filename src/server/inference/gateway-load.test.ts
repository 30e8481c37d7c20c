/** The load that a gateway tells the others, in a real database. */
import { expect, onTestFinished, test } from 'vitest'
import { testDatabase } from '../../../test/harness/database.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { instantOf, systemClock } from '../../base/instant.ts'
import type { Catalog, Deployment } from '../../gateway/catalog.ts'
import type { DispatcherStats } from '../../gateway/dispatch/dispatch.ts'
import { modelOn } from '../../../test/sim/model-server-caller.ts'
import { openDatabase } from '../../store/platform/database.ts'
import { readLoads } from '../../store/serving/replica.ts'
import { reportGatewayLoad } from './gateway-load.ts'

const MODEL = 'acc_1/chat'
const replica = (drained: boolean) => ({ id: 'rep_1', address: { kind: 'link' }, drained }) as unknown as Deployment

function catalogWith(deployments: readonly Deployment[]): Catalog {
  return new Map([[MODEL, { ...modelOn([]), name: MODEL, deployments, startsOnDemand: { waitMs: 1_000 } }]])
}

async function start() {
  const fresh = await testDatabase()
  const database = openDatabase({ url: fresh.url, clock: systemClock, poolSize: 2 })
  const wakes: string[] = []
  database.onCommit = (wake) => void wakes.push(...wake)
  const stats = { queued: 0, inFlight: 0 }
  const reporter = reportGatewayLoad({
    database,
    clock: systemClock,
    gatewayId: 'gw-1',
    stats: () =>
      ({
        models: [{ model: MODEL, queued: stats.queued }],
        deployments: [{ id: 'rep_1', model: MODEL, inFlight: stats.inFlight, requests: 0 }],
      }) as unknown as DispatcherStats,
    log: { warn: () => {}, info: () => {}, debug: () => {}, error: () => {} } as never,
  })
  onTestFinished(async () => {
    await reporter.close()
    await database.close()
    await fresh.drop()
  })
  return { reporter, stats, wakes, read: () => readLoads(database.db, instantOf(0)) }
}

test('reports the first waiting request at once, then averages, then that a replica is drained', async () => {
  const { reporter, stats, wakes, read } = await start()
  reporter.setCatalog(catalogWith([]))
  await waitFor('the model to be known', async () => (await read()).length === 1)
  expect(await read()).toMatchObject([{ current: 0, outstanding: 0, activeAt: null }])
  stats.queued = 3
  reporter.waiting(MODEL)
  await waitFor('the wait to be known', async () => (await read())[0]?.current === 3)
  expect(wakes).toContain('serve')
  stats.queued = 0
  stats.inFlight = 2
  reporter.setCatalog(catalogWith([replica(false)]))
  await waitFor('the replica to be busy', async () => (await read())[0]?.replicas['rep_1']?.inFlight === 2)
  stats.inFlight = 0
  reporter.setCatalog(catalogWith([replica(true)]))
  await waitFor('the drain to be confirmed', async () => {
    const load = (await read())[0]?.replicas['rep_1']
    return load?.isUnrouted === true && load.inFlight === 0
  })
  expect((await read())[0]?.activeAt).not.toBeNull()
})
