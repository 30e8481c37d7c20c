/** Which machine a replica is ordered on, from the results of earlier starts. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { succeed } from '../../../test/harness/journey.ts'
import { passForReal } from '../../../test/harness/simulated-machine.ts'
import { testServer, type Call, type TestServer } from '../../../test/harness/server.ts'
import { addMs, systemClock, type Clock } from '../../base/instant.ts'
import type { RentalOutcome } from '../../contract/rental-outcome.ts'
import type { ReplicaEnd } from '../../domain/serving.ts'
import { transact } from '../../store/platform/database.ts'
import { lockManaged } from '../../store/serving/managed-deployment.ts'
import { listReplicas, moveReplica, type Replica } from '../../store/serving/replica.ts'
import { startReplica } from './replica.ts'

const VERSION = 1
let server: TestServer
let call: Call
/** The deployment of the current test. */
let id: string
let passedMs = 0
const clock: Clock = { now: () => addMs(systemClock.now(), passedMs) }

beforeAll(async () => {
  server = await testServer({ runLoops: false, clock })
  await passForReal(server.app)
  call = (await server.account({ usd: '500' })).call
})
afterAll(() => server.close())

async function deploy(name: string, gpus: object): Promise<void> {
  const recipe = { name: 'custom', image: { name: 'lab/chat-engine' } }
  id = (await succeed(call, 'POST', '/v2/deployments', { name, recipe, gpus, hourlyBudgetUsd: '2.00' })).id
}

/** Orders a replica, and returns it. */
async function start(): Promise<Replica> {
  const { app } = server
  return transact(app.database, async (tx) => {
    const deployment = await lockManaged(tx, id)
    if (deployment === undefined) throw new Error('no deployment')
    const living = await listReplicas(tx.db, [id])
    const outcome = await startReplica(app, tx, deployment, VERSION, living)
    if (!outcome.ok) throw new Error(outcome.message)
    const replica = (await listReplicas(tx.db, [id])).find(({ rental_id }) => rental_id === outcome.value.id)
    if (replica === undefined) throw new Error('no replica')
    return replica
  })
}

/** Ends it, after it has been ready or not. */
async function end(
  { id: replicaId }: Replica,
  how: { isReady: boolean; why: ReplicaEnd | RentalOutcome },
): Promise<void> {
  await transact(server.app.database, async (tx) => {
    if (how.isReady) await moveReplica(tx, replicaId, ['starting'], { state: 'ready', reason: null })
    await moveReplica(tx, replicaId, ['starting', 'ready'], { state: 'ended', reason: how.why })
  })
}

test('one that failed to start is tried elsewhere; one that served is started there again', async () => {
  await deploy('one', { model: 'RTX 4090' })
  const [unused, served] = [await start(), await start()]
  await end(unused, { isReady: false, why: 'not_needed' })
  await end(served, { isReady: true, why: 'drained' })
  expect((await start()).node).toBe(served.node)
  // Another replica lives there now.
  const second = await start()
  expect(second.node).toBe(unused.node)
  // Right after its first answer.
  await end(second, { isReady: true, why: 'process_exited' })
  const third = await start()
  expect([served.node, second.node]).not.toContain(third.node)
  // Which says nothing about the machine.
  await end(third, { isReady: false, why: 'registry_refused' })
  expect((await start()).node).toBe(third.node)
  passedMs += 31 * 60_000
  expect((await start()).node).toBe(second.node)
})

test('a machine that failed is used if the budget allows no other, although that comes first', async () => {
  await deploy('two', { model: 'H100' })
  const { db } = server.app.database
  const cheap = await start()
  await end(cheap, { isReady: true, why: 'contact_lost' })
  await db
    .updateTable('machine')
    .set({ price_nano_per_gpu_hour: 2_100_000_000n })
    .where('offering', '=', 'marketplace')
    .where('id', '<>', cheap.node ?? '')
    .execute()
  expect((await start()).node).toBe(cheap.node)
  await expect(start()).rejects.toThrow(/budget/)
})
