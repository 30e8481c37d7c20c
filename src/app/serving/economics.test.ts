/** Revenue and cost equal the ledger to the nano-dollar, and busy time is the time with at least one request. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { endRental, openAccount, refund, settle, startRental } from '../../../test/harness/ledger.ts'
import { openPurseLedger, type PurseLedger } from '../../../test/harness/purse-ledger.ts'
import {
  addMs,
  DAY_MS,
  formatInstant,
  HOUR_MS,
  instantOf,
  MINUTE_MS,
  SECOND_MS,
  type Instant,
} from '../../base/instant.ts'
import { costOfSpan, nanoUsdOf, shareOf, usd, type NanoUsd } from '../../base/money.ts'
import { settingsOf } from '../../contract/managed-deployment.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import { initialScaling } from '../../domain/scaling.ts'
import { transact } from '../../store/platform/database.ts'
import { countReplicaHour, hoursToCount } from '../../store/serving/economics.ts'
import { deleteManaged, findManaged, insertManaged } from '../../store/serving/managed-deployment.ts'
import { insertModel } from '../../store/model/model.ts'
import { insertProviderAccount } from '../../store/provider/provider-account.ts'
import { openPurchase, settlePurchase } from '../../store/provider/purchase.ts'
import { insertReplica, moveReplica } from '../../store/serving/replica.ts'
import type { Actor } from '../app.ts'
import { readDeploymentUsage, readEconomics } from './economics.ts'
import { defaultRules } from '../supply/provider.ts'
import { settleRecords } from '../../domain/settlement.ts'

type Supplier = { readonly accountId: string; readonly platformFeeBp: number }

const FEE_BP = 2_000
const MODEL = 'house/chat'
/** Ten minutes before the hour. */
const start = instantOf(Date.UTC(2026, 0, 2, 11, 50))
const from = '2026-01-02'
const perHour = usd('1.234567891')
const day = (at: Instant): string => formatInstant(at).slice(0, 10)
const cloudAccount = {
  driver: 'lambda',
  base_url: 'https://example.com',
  credentials_sealed: '',
  ...defaultRules,
} as const

let ledger: PurseLedger
let house: Actor
let customer: Actor
let rentalId: number
let sold: Supplier

beforeAll(async () => {
  ledger = await openPurseLedger()
  ledger.clock.advance(addMs(start, -MINUTE_MS) - ledger.clock.now())
  house = await openAccount(ledger, 'house', usd('100'))
  customer = await openAccount(ledger, 'customer', usd('10'))
  const supplier = await openAccount(ledger, 'supplier')
  await transact(ledger.database, async (tx) => {
    const prices = { input_nano: usd('1'), cached_nano: usd('1'), output_nano: usd('4') }
    await insertModel(tx, { name: MODEL, kind: 'chat', engine: null, context_tokens: null, ...prices })
    const settings = settingsOf({ hourlyBudgetUsd: '5' })
    await insertManaged(tx, {
      id: 'srv_1',
      account_id: house.accountId,
      person_id: house.personId,
      api_key_id: house.keyId,
      model: MODEL,
      is_public: true,
      owns_model: false,
      settings,
      scaling: initialScaling(settings.replicas, tx.clock.now()),
      spec: { recipe: { name: 'vllm' }, gpus: { count: 1 } },
    })
  })
  ledger.clock.advance(MINUTE_MS)
  sold = { accountId: supplier.accountId, platformFeeBp: FEE_BP }
  rentalId = await startRental(ledger, house, { pricePerHour: perHour, supplier: sold, kind: 'container' })
  await transact(ledger.database, async (tx) => {
    const endpoint = { port: 1, protocol: 'chat', concurrency: 1, upstreamModel: MODEL, readsMetrics: false } as const
    await insertReplica(tx, {
      id: 'rep_1',
      deployment_id: 'srv_1',
      version: 1,
      rental_id: rentalId,
      endpoint,
      key_sealed: 'x',
    })
    await moveReplica(tx, 'rep_1', ['starting'], { state: 'ready', reason: null })
  })
})
afterAll(() => ledger.close())

/** A request of so many seconds, which ended so long after the start. */
async function serve(...requests: ReadonlyArray<readonly [endedAfterMs: number, tookMs: number]>): Promise<void> {
  const treasury = await ledger.startTreasury()
  const hold = await ledger.fill(treasury, customer, usd('1'))
  const units = { inputTokens: 100, cachedTokens: 20, outputTokens: 50, pixelSteps: 0, characters: 0, soundMs: 0 }
  const record = ([endedAfterMs, totalMs]: readonly [number, number]): InferenceRecord =>
    ledger.recordOf(customer, hold, nanoUsdOf(300_000n), {
      model: MODEL,
      deployment: 'rep_1',
      at: addMs(start, endedAfterMs),
      totalMs,
      units,
    })
  await settleRecords(treasury, requests.map(record))
}

async function countHours(): Promise<void> {
  for (const hour of hoursToCount(ledger.clock.now())) await countReplicaHour(ledger.database.db, hour)
}

const usageOf = async () => {
  const usage = await readDeploymentUsage(ledger.app, house, 'srv_1', { from })
  if (!usage.ok) throw new Error(usage.message)
  return usage.value.usage
}

test('requests that overlap count once, also across hours, and waiting for the replica does not count', async () => {
  await serve(
    // Waited for a minute until the replica was ready, then took two seconds.
    [2 * SECOND_MS, 62 * SECOND_MS],
    [10 * SECOND_MS, 4 * SECOND_MS],
    [12 * SECOND_MS, 4 * SECOND_MS],
    // From one minute before the hour until one minute after it.
    [11 * MINUTE_MS, 2 * MINUTE_MS],
  )
  ledger.clock.advance(25 * MINUTE_MS)
  await countHours()
  // Counting again, and while the hour before is still open, changes nothing.
  await countHours()
  expect(await usageOf()).toMatchObject({
    requests: 4n,
    inputUnits: 400n,
    cachedUnits: 80n,
    outputUnits: 200n,
    requestMs: BigInt(190 * SECOND_MS),
    busyMs: BigInt(2 * SECOND_MS + 6 * SECOND_MS + 2 * MINUTE_MS),
  })
})

test('a request that is recorded hours later is counted within a day', async () => {
  ledger.clock.advance(3 * HOUR_MS)
  await serve([30 * SECOND_MS, SECOND_MS])
  await countHours()
  expect((await usageOf()).requests).toBe(4n)
  ledger.clock.advance(addMs(start, DAY_MS) - ledger.clock.now())
  await countHours()
  expect(await usageOf()).toMatchObject({ requests: 5n, busyMs: BigInt(129 * SECOND_MS) })
})

test('cost, supplier share, revenue and margin are those of the ledger', async () => {
  const ran = ledger.clock.now() - start
  await settle(ledger, { rentalId, volumeId: null })
  const cost = costOfSpan(perHour, ran)
  expect(await usageOf()).toMatchObject({ gpuCost: cost, paidMs: BigInt(ran) })
  await refund(ledger, house.accountId, rentalId, usd('0.5'))
  const economics = await readEconomics(ledger.app, { from })
  if (!economics.ok) throw new Error(economics.message)
  const [model] = economics.value.models
  const gpuCost = nanoUsdOf(cost - usd('0.5'))
  expect(model).toMatchObject({
    model: MODEL,
    deploymentId: 'srv_1',
    revenue: 1_500_000n,
    margin: 1_500_000n - gpuCost,
    costBasis: 'rental_price',
    vendorCost: 0n,
    supplier: shareOf(cost, 10_000 - FEE_BP),
    targetOutstanding: null,
    advice: { kind: 'too_little_measured', requests: 5n },
  })
  expect(economics.value).toMatchObject({ revenue: 1_500_000n, gpuCost, margin: 1_500_000n - gpuCost })
  expect(await ledger.findings()).toEqual([])
})

test('a replica on a machine of another cloud costs the house what the cloud bills, not its price as a rental', async () => {
  const cloudModel = 'house/cloud'
  const { database, clock } = ledger
  const settings = settingsOf({ hourlyBudgetUsd: '5' })
  const prices = { input_nano: usd('1'), cached_nano: usd('1'), output_nano: usd('4') }
  const { accountId: account_id, personId: person_id, keyId: api_key_id } = house
  await transact(database, async (tx) => {
    await insertModel(tx, { name: cloudModel, kind: 'chat', engine: null, context_tokens: null, ...prices })
    const scaling = initialScaling(settings.replicas, tx.clock.now())
    const spec = { recipe: { name: 'vllm' }, gpus: { count: 1 } } as const
    const owner = { account_id, person_id, api_key_id, is_public: true, owns_model: false }
    await insertManaged(tx, { id: 'srv_2', ...owner, model: cloudModel, settings, scaling, spec })
    await insertProviderAccount(tx, { ...cloudAccount, id: 'prv_1', name: 'main' })
  })
  const addReplica = async (id: string, order: { pricePerHour: NanoUsd; supplier?: Supplier }): Promise<number> => {
    const rental_id = await startRental(ledger, house, { ...order, kind: 'container' })
    const endpoint = {
      port: 1,
      protocol: 'chat',
      concurrency: 1,
      upstreamModel: cloudModel,
      readsMetrics: false,
    } as const
    await transact(database, (tx) =>
      insertReplica(tx, { id, deployment_id: 'srv_2', version: 1, rental_id, endpoint, key_sealed: 'x' }),
    )
    return rental_id
  }
  const ofCloudModel = async () => {
    const economics = await readEconomics(ledger.app, { from: day(clock.now()) })
    const one = economics.ok ? economics.value.models.find(({ model }) => model === cloudModel) : undefined
    if (!economics.ok || one === undefined) throw new Error('there are no economics of the model')
    return { total: economics.value.gpuCost, one }
  }
  clock.advance(DAY_MS)
  const [listPrice, billed] = [usd('2'), usd('1.5')]
  const rented = await addReplica('rep_2', { pricePerHour: listPrice })
  const bought = { noun: 'rental', id: rented } as const
  const at = { boughtAt: clock.now(), startedAt: clock.now() }
  const purchase = await transact(database, (tx) =>
    openPurchase(tx, {
      account: 'main',
      bought,
      externalId: 'm/1',
      perHour: billed,
      incrementMs: 1,
      minimumMs: 0,
      ...at,
    }),
  )
  clock.advance(2 * HOUR_MS)
  await settle(ledger, { rentalId: rented, volumeId: null })
  await transact(database, (tx) => settlePurchase(tx, purchase ?? 0n, clock.now(), { ends: false, memo: 'Cost' }))
  expect(await ofCloudModel()).toMatchObject({
    total: usd('3'),
    one: {
      costBasis: 'vendor_price',
      vendorCost: usd('3'),
      supplier: 0n,
      margin: 0n - usd('3'),
      usage: { gpuCost: usd('3') },
    },
  })
  // The account that rents sees its own charges.
  const charged = await readDeploymentUsage(ledger.app, house, 'srv_2', {})
  expect(charged).toMatchObject({ ok: true, value: { usage: { gpuCost: usd('4') } } })

  const supplied = await addReplica('rep_3', { pricePerHour: usd('1'), supplier: sold })
  clock.advance(HOUR_MS)
  await settle(ledger, { rentalId: supplied, volumeId: null })
  expect((await ofCloudModel()).one).toMatchObject({
    costBasis: 'mixed',
    vendorCost: usd('3'),
    supplier: usd('0.8'),
    margin: 0n - usd('4'),
    usage: { gpuCost: usd('4') },
  })
  expect(await ledger.findings()).toEqual([])
})

test('other accounts do not see the usage, and days outside the period do not count', async () => {
  const strange = { ...customer, scopes: ['compute:read'] } as Actor
  expect(await readDeploymentUsage(ledger.app, strange, 'srv_1', {})).toMatchObject({ reason: 'deployment_not_found' })
  const before = await readEconomics(ledger.app, { from: '2025-12-01', to: '2026-01-01' })
  expect(before).toMatchObject({ ok: true, value: { revenue: 0n, models: [] } })
})

test('a deleted deployment stays in the economics of its model', async () => {
  await endRental(ledger, rentalId)
  await transact(ledger.database, async (tx) => {
    await moveReplica(tx, 'rep_1', ['ready'], { state: 'ended', reason: 'deleted' })
    const deployment = await findManaged(tx.db, 'srv_1')
    if (deployment === undefined) throw new Error('it is gone already')
    await deleteManaged(tx, deployment)
  })
  expect(await readEconomics(ledger.app, { from, model: MODEL })).toMatchObject({
    ok: true,
    value: { models: [{ model: MODEL, deploymentId: null, revenue: 1_500_000n, usage: { requests: 5n } }] },
  })
})
