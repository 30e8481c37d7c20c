import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS, toDate } from '../../base/instant.ts'
import { nanoUsdOf, usd, type NanoUsd } from '../../base/money.ts'
import {
  breakRental,
  buy,
  endRental,
  openAccount,
  openTestLedger,
  refund,
  settle,
  startRental,
  startVolume,
  stopRental,
  type TestLedger,
} from '../../../test/harness/ledger.ts'
import { paymentPlants, recordPayments } from '../../../test/harness/payment-ledger.ts'
import { payoutPlants, recordPayouts } from '../../../test/harness/payout-ledger.ts'
import { makeTreasury } from '../../app/money/treasury.ts'
import type { Actor } from '../../app/app.ts'
import { inferenceRecord } from '../../../test/harness/ended-request.ts'
import { checkLabel } from '../../view/ledger.ts'
import { transact, type Db } from '../platform/database.ts'
import { placeHold, releaseExpiredHolds } from './ledger.ts'
import { ledgerChecks, readHouse, readWholeLedger, runCheck } from './ledger-verify.ts'
import { insertProviderAccount } from '../provider/provider-account.ts'
import { listOpenPurchases, openPurchase, settlePurchase } from '../provider/purchase.ts'
import { moveRental } from '../rental/rental.ts'
import { finishStart } from '../../app/rental/rental-power.ts'
import { saveCreditLine } from './standing.ts'
import { settleRecords } from '../../domain/settlement.ts'

let ledger: TestLedger
/** Rentals by outcome, the volume, and some meters. */
const ids = new Map<string, number | bigint>()

beforeAll(async () => {
  ledger = await openTestLedger()
  await recordOperatorPostings()
})
afterAll(() => ledger.close())

/** All legitimate operations: none may be reported as a fault. */
async function recordOperatorPostings(): Promise<void> {
  const { clock, database } = ledger
  const actor = await openAccount(ledger, 'verify', usd('500'))
  const poor = await openAccount(ledger, 'poor', usd('6'))
  const { accountId: supplierId } = await openAccount(ledger, 'supplier')
  const supplier = { accountId: supplierId, platformFeeBp: 1_250 }
  await openMachine(ledger.database.db)

  const running = await startRental(ledger, actor, { pricePerHour: usd('23.92'), supplier })
  const ended = await startRental(ledger, actor, { pricePerHour: usd('1.337'), supplier })
  const lost = await startRental(ledger, actor, { pricePerHour: usd('3') })
  const broken = await startRental(ledger, actor, { pricePerHour: usd('3') })
  const stopped = await startRental(ledger, actor, { pricePerHour: usd('2.49'), supplier })
  const cpuOnly = await startRental(ledger, actor, { pricePerHour: usd('2.49'), supplier })
  const broke = await startRental(ledger, poor, { pricePerHour: usd('6') })
  const volume = await startVolume(ledger, actor, usd('0.000097'), 1_024)
  for (const [name, id] of Object.entries({ running, ended, lost, broken, stopped, cpuOnly, volume })) ids.set(name, id)
  for (const { id, rental_id } of await database.db.selectFrom('segment').select(['id', 'rental_id']).execute()) {
    if (rental_id === running) ids.set('running meter', id)
    if (rental_id === ended) ids.set('ended meter', id)
  }
  await sql`select claim_gpus('m1', 3, ${running}, ${toDate(clock.now())})`.execute(database.db)
  await sql`select claim_gpus('m1', 2, ${ended}, ${toDate(clock.now())})`.execute(database.db)

  clock.advance(7 * MINUTE_MS + 1)
  for (const rentalId of [running, ended]) await settle(ledger, { rentalId, volumeId: null })
  await settle(ledger, { rentalId: null, volumeId: volume })
  const seen = clock.now()
  clock.advance(11 * MINUTE_MS + 17)
  await transact(database, (tx) => moveRental(tx, lost, 'Unknown', { seen_at: seen }))
  await breakRental(ledger, broken)
  for (const rentalId of [stopped, cpuOnly]) await stopRental(ledger, rentalId)
  await transact(database, async (tx) => {
    const starting = await moveRental(tx, cpuOnly, 'Starting', { cpu_nano_per_hour: usd('0.05') })
    if (starting !== undefined) await finishStart(tx, starting, clock.now(), {})
  })
  clock.advance(MINUTE_MS)
  for (const rentalId of [lost, broken, ended]) await endRental(ledger, rentalId)
  await refund(ledger, actor.accountId, ended, usd('0.1'))
  // The meter was down, and the money ran out long before the customer ended the rental.
  clock.advance(2 * HOUR_MS)
  await endRental(ledger, broke)
  await settle(ledger, { rentalId: running, volumeId: null })
  await buy(ledger, poor.accountId, usd('20'))
  await startRental(ledger, poor, { pricePerHour: usd('0') })
  await settleRequests(actor)
  await commit(supplier)
  await buyMachine(running)
  await recordPayments(ledger)
  await recordPayouts(ledger, supplierId)
}

/** A machine of another cloud whose price changed once. */
async function buyMachine(rentalId: number): Promise<void> {
  const { clock, database } = ledger
  const memo = 'Cost of a machine'
  const boughtAt = clock.now()
  await transact(database, async (tx) => {
    await insertProviderAccount(tx, {
      id: 'prv_verify',
      driver: 'lambda',
      name: 'main',
      base_url: 'https://example.com',
      credentials_sealed: '',
      regions: {},
      markup_bp: null,
      floor_nano_per_gpu_hour: null,
      fixed_nano_per_gpu_hour: null,
      sells_below_cost: false,
      monthly_cap_nano: null,
      preference: 0,
    })
  })
  const bought = { noun: 'rental', id: rentalId } as const
  const rules = { account: 'main', bought, externalId: 'main/1', incrementMs: 60_000, minimumMs: 0, boughtAt }
  const open = (perHour: NanoUsd) =>
    transact(database, (tx) => openPurchase(tx, { ...rules, perHour, startedAt: clock.now() }))
  const settleOpen = async (ends: boolean): Promise<bigint> => {
    const [purchase] = await listOpenPurchases(database.db, 'lambda', 'rental')
    const id = purchase?.id ?? 0n
    await transact(database, (tx) => settlePurchase(tx, id, clock.now(), { ends, memo }))
    return id
  }
  await open(usd('3.290000007'))
  clock.advance(7 * MINUTE_MS + 1)
  await settleOpen(false)
  clock.advance(13 * MINUTE_MS + 7)
  const ended = await settleOpen(true)
  const { id: cost } = await database.db
    .selectFrom('posting')
    .select('id')
    .where('key', '=', `purchase:${ended}:1`)
    .executeTakeFirstOrThrow()
  ids.set('purchase', ended).set('cost', cost)
  await open(usd('4'))
  clock.advance(17)
  await settleOpen(false)
}

/** Reserved terms: one on credit, one ended early, one failed, and a payment that repaid part of the credit. */
async function commit(supplier: { accountId: string; platformFeeBp: number }): Promise<void> {
  const { clock, database } = ledger
  const reserved = [
    { termPeriodDays: 1, discountPercentage: 10 },
    { termPeriodDays: 3, discountPercentage: 30 },
  ]
  const actor = await openAccount(ledger, 'bound', usd('200'))
  await transact(database, (tx) => saveCreditLine(tx, actor.accountId, usd('500')))
  const request = { pricePerHour: usd('2.49'), reserved, supplier }
  const [bound, early, failed] = [
    await startRental(ledger, actor, request),
    await startRental(ledger, actor, request),
    await startRental(ledger, actor, request),
  ]
  ids.set('bound', bound).set('early', early).set('failed', failed)
  clock.advance(26 * HOUR_MS + 1)
  for (const rentalId of [bound, early]) await settle(ledger, { rentalId, volumeId: null })
  clock.advance(MINUTE_MS + 17)
  await endRental(ledger, early)
  await breakRental(ledger, failed)
  await buy(ledger, actor.accountId, usd('5'))
}

/** Requests on a gateway, some after their purse had expired and the money was gone. */
async function settleRequests({ accountId, keyId }: Actor): Promise<void> {
  const { clock, database } = ledger
  const treasury = makeTreasury({ database, clock, gatewayId: 'gw' })
  const { accountId: brokeId, keyId: brokeKey } = await openAccount(ledger, 'broke', usd('0.5'))
  const record = (requestId: string, owner: string, apiKeyId: string, nano: bigint) =>
    inferenceRecord({
      requestId,
      accountId: owner,
      apiKeyId,
      holdKey: `purse:gw:${owner}`,
      cost: nanoUsdOf(nano),
      at: clock.now(),
    })
  for (const owner of [accountId, brokeId]) {
    await treasury.topUp({ accountId: owner, apiKeyId: null }, { maximum: usd('0.5'), minimum: usd('0.5') })
  }
  await treasury.topUp({ accountId, apiKeyId: keyId }, { maximum: usd('0.1'), minimum: usd('0.1') })
  await settleRecords(treasury, [record('r1', accountId, keyId, 1000n), record('r2', accountId, keyId, 234n)])
  await sql`
    insert into batch (id, account_id, api_key_id, input_file_id, endpoint, status, key_sealed, lines, completed, cost_nano,
      due_at, created_at, expires_at)
    select 'batch_1', ${accountId}, ${keyId}, 'file_1', '/v1/chat/completions', 'completed', '', 1, 1, 234, now, now, now
    from (select ${toDate(clock.now())}::timestamptz as now) times`.execute(database.db)
  await sql`update request set batch_id = 'batch_1' where request_id = 'r2'`.execute(database.db)
  clock.advance(11 * MINUTE_MS)
  await transact(database, (tx) => releaseExpiredHolds(tx, 10))
  await transact(database, (tx) =>
    placeHold(tx, { postingKey: 'spent', holdKey: 'spent', accountId: brokeId, amount: usd('0.5'), memo: 'Elsewhere' }),
  )
  await settleRecords(treasury, [record('r3', accountId, keyId, 5000n), record('r4', brokeId, brokeKey, 777n)])
  await treasury.topUp({ accountId, apiKeyId: null }, { maximum: usd('0.2'), minimum: usd('0.2') })
}

async function openMachine(db: Db): Promise<void> {
  const at = toDate(ledger.clock.now())
  await sql`
    insert into machine (id, driver, cluster_name, region, offering, status, gpu_type, gpu_model, gpu_ram_mib,
      gpu_form_factor, network_type, gpus_total, hardware, seen_at, created_at)
    values ('m1', 'mock', 'mock', 'mock-region', 'virtual-machine', 'node_ready', 'h100', 'H100', 81920,
      'sxm5', 'ethernet', 8, '{}', ${at}, ${at})`.execute(db)
}

test('check names are unique', () => {
  expect(new Set(ledgerChecks.map((check) => check.name)).size).toBe(ledgerChecks.length)
})

test('an intact ledger has no findings, and every check reads some rows', async () => {
  const outcomes = await readWholeLedger(ledger.database, async (db) => {
    const seen: Array<{ name: string; rows: number; findings: unknown[] }> = []
    for (const check of ledgerChecks) {
      const { rows, findings } = await runCheck(db, check, 10)
      seen.push({ name: check.name, rows, findings })
    }
    return seen
  })
  expect(outcomes.flatMap((outcome) => outcome.findings)).toEqual([])
  expect(outcomes.filter((outcome) => outcome.rows === 0)).toEqual([])
})

test('the balances of the house mirror those of its customers', async () => {
  const house = await readHouse(ledger.database.db)
  const customers = await sql<{ sum: string }>`select sum(balance_nano)::text as sum from ledger_account`.execute(
    ledger.database.db,
  )
  expect([...house.keys()]).toEqual([
    'adjustments',
    'cost_of_goods',
    'credit',
    'funding',
    'payables',
    'payouts',
    'processor',
    'processor_fees',
    'receivables',
    'revenue',
    'tax',
  ])
  expect(house.get('funding')).toBe(0n - usd('731.5'))
  const sum = [...house.values()].reduce((sum, amount) => sum + amount, 0n)
  expect(sum + BigInt(customers.rows[0]?.sum ?? '0')).toBe(0n)
})

test('reads one snapshot, and cannot write', async () => {
  await readWholeLedger(ledger.database, async (db) => {
    const count = async () => (await sql<{ n: bigint }>`select count(*) as n from posting`.execute(db)).rows[0]?.n
    const before = await count()
    await buy(ledger, 'acc_verify', usd('1'))
    expect(await count()).toBe(before)
  })
  const write = readWholeLedger(ledger.database, (db) => sql`delete from hold`.execute(db))
  await expect(write).rejects.toMatchObject({ code: '25006' })
})

describe('a planted fault', () => {
  /** Check | fault | subject it must name | SQL that plants it. */
  const plants = `
    balance_is_its_transfers | a balance grew          | acc_verify available     | update ledger_account set balance_nano = balance_nano + 1 where account_id = 'acc_verify' and kind = 'available'
    balance_is_its_transfers | a transfer is gone      | acc_verify held          | delete from transfer where posting_id = (select id from posting where key = 'rental:{running}:hold')
    ledger_sums_to_zero      | a balance grew          | ledger                   | update ledger_account set balance_nano = balance_nano + 1 where account_id = 'acc_verify' and kind = 'available'
    never_below_zero         | a balance               | acc_poor held            | alter table ledger_account drop constraint never_negative; update ledger_account set balance_nano = -1 where account_id = 'acc_poor' and kind = 'held'
    never_below_zero         | a hold                  | rental:{ended}           | alter table hold drop constraint hold_amount_nano_check; update hold set amount_nano = -1 where key = 'rental:{ended}'
    holds_are_what_is_held   | a hold lost some        | acc_verify               | update hold set amount_nano = amount_nano - 1 where key = 'rental:{running}'
    posting_has_transfers    | one without             | bare                     | insert into posting (key, kind, at, account_id, memo) values ('bare', 'credit', now(), 'acc_verify', 'x')
    posting_moves_its_own_balance | the wrong statement | rental:{running}:hold   | update posting set account_id = 'acc_poor' where key = 'rental:{running}:hold'
    segment_settled_is_its_charges | it says more      | segment {running meter}  | update segment set settled_nano = settled_nano + 1 where id = {running meter}
    segment_settled_is_its_charges | it is gone        | segment {ended meter}    | delete from segment where id = {ended meter}
    segment_settled_to_the_millisecond | one is missing | segment {running meter} | update segment set settled_until = settled_until - interval '1 ms' where id = {running meter}
    segment_settled_to_the_millisecond | its end is not charged | segment {running meter} | update segment set ended_at = settled_until + interval '1 ms' where id = {running meter}
    supplier_gets_its_share  | written down, not paid  | segment {running meter}  | update segment set supplier_nano = supplier_nano + 1 where id = {running meter}
    supplier_gets_its_share  | the fee grew afterwards | segment {ended meter}    | update segment set platform_fee_bp = 5000 where id = {ended meter}
    supplier_gets_its_share  | it went to another      | segment {ended meter}    | update segment set supplier_id = 'acc_poor' where id = {ended meter}
    segments_follow_one_another | an overlap           | rental {ended}           | alter table segment drop constraint rental_segments_never_overlap; insert into segment (account_id, rental_id, hold_key, started_at, price_nano_per_hour, settled_until, due_at) select account_id, rental_id, hold_key, ended_at - interval '1 ms', 0, ended_at, due_at from segment where id = {ended meter}
    segments_follow_one_another | a hole               | rental {ended}           | insert into segment (account_id, rental_id, hold_key, started_at, price_nano_per_hour, settled_until, due_at) select account_id, rental_id, hold_key, ended_at + interval '1 ms', 0, ended_at + interval '1 ms', due_at from segment where id = {ended meter}
    bill_begins_with_the_rental | it began late        | rental {running}         | update rental set started_at = started_at - interval '1 ms' where id = {running}
    bill_begins_with_the_rental | it never began       | rental {lost}            | delete from segment where rental_id = {lost}
    bill_ends_with_the_rental | it went on             | rental {ended}           | update rental set terminate_requested_at = terminate_requested_at - interval '1 ms' where id = {ended}
    bill_ends_with_the_rental | it stopped early       | rental {ended}           | update rental set terminate_requested_at = terminate_requested_at + interval '1 ms' where id = {ended}
    bill_ends_with_the_rental | it failed, and went on | rental {broken}          | update rental set status = 'Failed', status_since = status_since - interval '1 hour' where id = {broken}
    stopped_rentals_pay_for_their_disk_only | the machine is paid for | rental {stopped} | update segment set while_stopped = false where rental_id = {stopped} and ended_at is null
    stopped_rentals_pay_for_their_disk_only | at another price  | rental {stopped} | update rental set stopped_nano_per_hour = 1 where id = {stopped}
    stopped_rentals_pay_for_their_disk_only | it keeps its GPUs | rental {stopped} | insert into gpu_claim values ('m1', 7, {stopped}, now())
    stopped_rentals_pay_for_their_disk_only | what runs pays too little | rental {running} | update segment set while_stopped = true where id = {running meter}
    rentals_without_gpus_pay_for_their_cpus_only | another price | rental {cpuOnly} | update rental set cpu_nano_per_hour = 1 where id = {cpuOnly}
    rentals_without_gpus_pay_for_their_cpus_only | its GPUs are paid for | rental {cpuOnly} | update segment set without_gpus = false where rental_id = {cpuOnly} and ended_at is null
    rentals_without_gpus_pay_for_their_cpus_only | it keeps its GPUs | rental {cpuOnly} | insert into gpu_claim values ('m1', 7, {cpuOnly}, now())
    what_runs_is_metered     | a rental                | rental {running}         | update segment set ended_at = settled_until where id = {running meter}
    what_runs_is_metered     | a volume                | volume {volume}          | update segment set ended_at = settled_until where volume_id = {volume}
    what_ended_costs_nothing | a meter runs on         | rental {ended}           | update segment set ended_at = null where id = {ended meter}
    what_ended_costs_nothing | it still has a hold     | rental {ended}           | update hold set amount_nano = 5 where key = 'rental:{ended}'
    what_ended_costs_nothing | a volume's meter runs on | volume {volume}         | update volume set state = 'deleting' where id = {volume}
    what_ended_costs_nothing | a volume's money        | volume {volume}          | update volume set state = 'deleted' where id = {volume}; update segment set ended_at = settled_until
    commitment_is_held       | some of it is gone      | rental {bound}           | update hold set amount_nano = amount_nano - 1 where key = 'rental:{bound}'
    commitment_is_held       | of what has ended       | rental {early}           | update commitment set closed_at = null, closed_rate_nano = null where rental_id = {early}
    commitment_costs_no_more_than_its_term | a cheaper term | rental {early}      | update commitment set total_nano = 1 where rental_id = {early}
    early_end_is_rerated     | at another rate         | rental {early}           | update commitment set closed_rate_nano = closed_rate_nano + 1 where rental_id = {early}
    early_end_is_rerated     | by another amount       | rental {early}           | update commitment set rerated_nano = rerated_nano - 1 where rental_id = {early}
    early_end_is_rerated     | it was let off          | rental {early}           | update commitment set rerated_nano = 0, at_fault = true, closed_rate_nano = 1743000000 where rental_id = {early}; delete from transfer where posting_id = (select id from posting where key = 'rerate:{early}')
    early_end_is_rerated     | never posted            | rental {early}           | delete from transfer where posting_id = (select id from posting where key = 'rerate:{early}')
    early_end_is_rerated     | though we failed        | rental {failed}          | update commitment set rerated_nano = 5 where rental_id = {failed}
    supplier_gets_its_share_of_early_ends | it kept some | rental {early}         | update commitment set supplier_nano = supplier_nano + 1 where rental_id = {early}
    credit_used_is_what_was_drawn | it owes less       | acc_bound                | update credit_line set used_nano = used_nano - 1
    credit_used_is_what_was_drawn | the line is gone   | acc_bound                | delete from credit_line
    batch_cost_is_its_requests | it cost more          | batch_1                  | update batch set cost_nano = cost_nano + 1
    batch_cost_is_its_requests | a request of another  | batch_1                  | update request set batch_id = null
    batch_lines_are_its_requests | one has none        | batch_1                  | update batch set lines = 2, completed = 2
    batch_lines_are_its_requests | one is charged twice | batch_1                 | update request set batch_id = 'batch_1' where request_id = 'r1'
    days_are_what_was_posted | a day says more         | acc_verify 2026-01-01 charge rental {ended} volume 0 | update ledger_day set amount_nano = amount_nano - 1 where rental_id = {ended} and kind = 'charge'
    days_are_what_was_posted | a day is gone           | acc_poor 2026-01-01 purchase rental 0 volume 0 | delete from ledger_day where account_id = 'acc_poor' and kind = 'purchase'
    account_spend_is_its_charges | it grew             | acc_verify 2026-01       | update account_spend set spent_nano = spent_nano + 1 where account_id = 'acc_verify'
    credit_is_repaid_first   | money beside a debt     | acc_bound                | update ledger_account set balance_nano = 1 where account_id = 'acc_bound' and kind = 'available'
    gpus_claimed_are_counted | one too few             | machine m1               | update machine set gpus_claimed = gpus_claimed - 1
    disks_are_counted        | some is missing         | machine m1               | update machine set disk_claimed_gb = disk_claimed_gb + 1
    gpus_claimed_are_in_use  | by what was released    | machine m1 GPU 0         | update gpu_claim set rental_id = {ended} where gpu_index = 0
    key_spend_is_its_charges | it grew                 | key verifykey 2026-01    | update key_spend set spent_nano = spent_nano + 1 where api_key_id = 'verifykey'
    requests_are_what_is_charged | a day cost more     | acc_verify key verifykey model model-a | update request_day set cost_nano = cost_nano + 1 where account_id = 'acc_verify'
    requests_are_what_is_charged | a day is gone       | acc_broke key brokekey model model-a | delete from request_day where account_id = 'acc_broke'
    requests_are_what_is_charged | of another key      | acc_verify key brokekey model model-a | update request_day set api_key_id = 'brokekey' where account_id = 'acc_verify'
    requests_are_what_is_charged | of another model    | acc_verify key verifykey model other | update request_day set model = 'other' where account_id = 'acc_verify'
    requests_are_what_is_charged | never charged       | acc_verify key none model x | insert into request_day values ('acc_verify', '2026-01-01', '', 'x', 1, 1, 1, 1, 0, 1)
    request_days_are_their_requests | one cost more    | acc_verify on 2026-01-01 key verifykey model model-a | update request set cost_nano = cost_nano + 1 where request_id = 'r1'
    request_days_are_their_requests | one is gone      | acc_broke on 2026-01-01 key brokekey model model-a | delete from request where request_id = 'r4'
    request_days_are_their_requests | one too many     | acc_verify on 2026-01-01 key verifykey model model-a | insert into request select 'r9', account_id, api_key_id, operation, model, deployment, at, status, outcome, reason, streamed, 0, 0, 0, 0, null, 1, trace_id from request where request_id = 'r1'
    purse_is_a_hold_with_an_end | of another account   | purse:gw:acc_verify      | update purse set account_id = 'acc_poor' where hold_key = 'purse:gw:acc_verify'
    purse_is_a_hold_with_an_end | of another's key     | purse:gw:acc_verify:verifykey | update purse set api_key_id = 'brokekey' where api_key_id = 'verifykey'
    purse_is_a_hold_with_an_end | for ever             | purse:gw:acc_verify      | update hold set expires_at = null where key = 'purse:gw:acc_verify'
    purse_is_a_hold_with_an_end | nobody has it        | purse:gw:acc_verify      | delete from purse where hold_key = 'purse:gw:acc_verify'
    purse_is_a_hold_with_an_end | without a hold       | purse:gw:acc_broke       | delete from hold where key = 'purse:gw:acc_broke'
    key_spend_is_its_charges | it is gone              | key verifykey 2026-01    | delete from key_spend where api_key_id = 'verifykey'
    costs_are_purchases      | of no purchase          | posting {cost}           | update posting set key = 'other' where id = {cost}
    costs_are_purchases      | of other money          | posting {cost}           | update transfer set to_id = ledger_account_id(null, 'revenue') where posting_id = {cost}
    purchase_settled_is_its_postings | it grew         | purchase {purchase}      | update purchase set settled_nano = settled_nano + 1 where id = {purchase}
    purchase_settled_is_its_postings | never posted    | purchase {purchase}      | delete from transfer where posting_id = {cost}
    purchase_settled_to_the_millisecond | too long     | purchase {purchase}      | update purchase set settled_until = settled_until + interval '1 s', ended_at = ended_at + interval '1 s' where id = {purchase}
    purchase_settled_to_the_millisecond | not to its end | purchase {purchase}    | update purchase set ended_at = ended_at + interval '1 ms' where id = {purchase}
    provider_cost_is_its_postings | it grew            | prv_verify 2026-01-02 rental {running} | update provider_cost set cost_nano = cost_nano + 1
    provider_cost_is_its_postings | it is gone         | prv_verify 2026-01-02 rental {running} | delete from provider_cost`
  const cases = (plants + paymentPlants + payoutPlants)
    .trim()
    .split('\n')
    .map((line) => line.split(' | ').map((cell) => cell.trim()))

  test('exists for every check', () => {
    expect(new Set(cases.map(([name]) => name))).toEqual(new Set(ledgerChecks.map((check) => check.name)))
  })

  test('is counted even if only some are shown', async () => {
    const check = ledgerChecks.find((check) => check.name === 'posting_has_transfers')
    if (check === undefined) throw new Error('no such check')
    const bare = `insert into posting (key, kind, at, account_id, memo)
      select 'bare' || n, 'credit', now(), 'acc_verify', 'x' from generate_series(1, 12) n`
    const outcome = await withDamagedLedger(bare, (db) => runCheck(db, check, 10))
    expect([outcome.total, outcome.findings.length]).toEqual([12, 10])
  })

  test.each(cases)('%s: %s', async (name = '', _, subject = '', spoil = '') => {
    const check = ledgerChecks.find((check) => check.name === name)
    if (check === undefined) throw new Error(`no check ${name}`)
    const fill = (text: string) => text.replace(/\{([\w ]+)\}/g, (_, what: string) => String(ids.get(what)))
    const outcome = await withDamagedLedger(fill(spoil), (db) => runCheck(db, check, 10))
    expect(outcome.total).toBe(outcome.findings.length)
    expect(outcome.findings).toContainEqual({
      check: name,
      subject: fill(subject),
      detail: expect.stringMatching(/./),
    })
  })
})

class PutBack extends Error {}

/** Damages the ledger past triggers and foreign keys, runs the checks, and rolls back. */
async function withDamagedLedger<T>(spoil: string, look: (db: Db) => Promise<T>): Promise<T> {
  let seen: { value: T } | undefined
  await ledger.database.db
    .transaction()
    .execute(async (db) => {
      await sql`set local session_replication_role = replica`.execute(db)
      await sql.raw(spoil).execute(db)
      seen = { value: await look(db) }
      throw new PutBack()
    })
    .catch((error: unknown) => {
      if (!(error instanceof PutBack)) throw error
    })
  if (seen === undefined) throw new Error('nothing was looked at')
  return seen.value
}

test('every check has a sentence for people', () => {
  expect(ledgerChecks.map(({ name }) => checkLabel(name)).filter((label) => /^[a-z]/.test(label))).toEqual([])
})
