/** Starts are free up to an allowance per account and day, and charged from that instant on, to the nano-dollar. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { endRental, openAccount, openTestLedger, startRental, type TestLedger } from '../../../test/harness/ledger.ts'
import { MINUTE_MS } from '../../base/instant.ts'
import { costOfSpan, shareOf, usd, zeroUsd } from '../../base/money.ts'
import { settingsOf } from '../../contract/managed-deployment.ts'
import { initialScaling } from '../../domain/scaling.ts'
import { transact } from '../../store/platform/database.ts'
import { findManaged, insertManaged } from '../../store/serving/managed-deployment.ts'
import { insertModel } from '../../store/model/model.ts'
import { insertReplica, listReplicas } from '../../store/serving/replica.ts'
import { findOpenSegment } from '../../store/ledger/segment.ts'
import type { Actor } from '../app.ts'
import { chargeLongStarts, freeStartLeft } from './free-start.ts'
import { becomeReady } from './replica.ts'

/** Of the rentals in this harness. */
const GPUS = 8
const perHour = usd('1.234567891')
let ledger: TestLedger
let customer: Actor
let supplier: Actor

beforeAll(async () => {
  ledger = await openTestLedger()
  customer = await openAccount(ledger, 'customer', usd('100'))
  supplier = await openAccount(ledger, 'supplier')
  await transact(ledger.database, async (tx) => {
    await insertModel(tx, { name: 'a/m', kind: 'chat', engine: null, context_tokens: null })
    const settings = settingsOf({})
    await insertManaged(tx, {
      id: 'srv_1',
      account_id: customer.accountId,
      person_id: customer.personId,
      api_key_id: customer.keyId,
      model: 'a/m',
      is_public: false,
      owns_model: false,
      settings,
      scaling: initialScaling(settings.replicas, tx.clock.now()),
      spec: { recipe: { name: 'vllm' }, gpus: { count: GPUS } },
    })
  })
})
afterAll(() => ledger.close())

test('a start is charged from the instant at which the allowance is used up, and its supplier is paid', async () => {
  const app = { ...ledger.app, freeStartMinutes: 10 * GPUS }
  const { db } = ledger.database
  const sold = { accountId: supplier.accountId, platformFeeBp: 2_000 }
  const rentalId = await startRental(ledger, customer, { pricePerHour: perHour, supplier: sold, kind: 'container' })
  const metered = { rentalId, volumeId: null }
  await transact(ledger.database, async (tx) => {
    const endpoint = { port: 1, protocol: 'chat', concurrency: 1, upstreamModel: 'm', readsMetrics: false } as const
    const replica = { id: 'rep_1', deployment_id: 'srv_1', version: 1, rental_id: rentalId, endpoint, key_sealed: 'x' }
    await insertReplica(tx, replica)
    // As when a replica is first seen running.
    await tx.db.updateTable('segment').set({ price_nano_per_hour: zeroUsd }).where('rental_id', '=', rentalId).execute()
  })
  const pass = async (): Promise<void> => {
    const deployment = await findManaged(db, 'srv_1')
    if (deployment === undefined) throw new Error('there is no deployment')
    await chargeLongStarts(app, deployment, await listReplicas(db, ['srv_1']))
  }
  ledger.clock.advance(9 * MINUTE_MS)
  await pass()
  expect(await findOpenSegment(db, metered)).toMatchObject({ price_nano_per_hour: 0n })
  expect(await freeStartLeft(app, db, customer.accountId)).toBe(GPUS)
  // The pass comes late; the charge begins at the end of the tenth minute all the same.
  ledger.clock.advance(6 * MINUTE_MS)
  await pass()
  await pass()
  expect(await findOpenSegment(db, metered)).toMatchObject({ price_nano_per_hour: perHour })
  expect(await freeStartLeft(app, db, customer.accountId)).toBe(0)
  ledger.clock.advance(MINUTE_MS)
  // The first answer changes nothing more.
  await transact(ledger.database, async (tx) => {
    const deployment = await findManaged(tx.db, 'srv_1')
    const [replica] = await listReplicas(tx.db, ['srv_1'])
    expect(deployment && replica && (await becomeReady(tx, deployment, replica, tx.clock.now()))).toBe(true)
  })
  ledger.clock.advance(10 * MINUTE_MS)
  await endRental(ledger, rentalId)
  const segments = await db
    .selectFrom('segment')
    .select(['price_nano_per_hour', 'started_at', 'ended_at', 'settled_nano', 'supplier_nano'])
    .where('rental_id', '=', rentalId)
    .orderBy('started_at')
    .execute()
  const charged = costOfSpan(perHour, 16 * MINUTE_MS)
  expect(
    segments.map(({ started_at, ended_at, settled_nano, supplier_nano }) => [
      ((ended_at ?? 0) - started_at) / MINUTE_MS,
      settled_nano,
      supplier_nano,
    ]),
  ).toEqual([
    [10, 0n, 0n],
    [16, charged, shareOf(charged, 8_000)],
  ])
  const events = await db.selectFrom('event').select('type').where('subject_id', '=', 'srv_1').orderBy('id').execute()
  expect(events.map(({ type }) => type)).toEqual([
    'deployment.start_charged',
    'deployment.replica_ready',
    'deployment.rollout_done',
  ])
})
