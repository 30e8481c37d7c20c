/**
 * Verifies the ledger from its first rows. Each check is one query for rows that violate an invariant, and shares no code
 * with what maintains it: it also finds damage by a restored backup or a manual change. All checks read one snapshot.
 */
import { sql } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import { readSnapshot } from './billing.ts'
import { transact, type Database, type Db } from '../platform/database.ts'
import { machineBilledStates, meteredStates, sqlStates } from '../rental/state-list.ts'
import type { LedgerCheck } from './ledger-check.ts'
import { batchChecks } from './ledger-verify-batch.ts'
import { commitmentChecks } from './ledger-verify-commitment.ts'
import { dayChecks } from './ledger-verify-day.ts'
import { paymentChecks } from './ledger-verify-payment.ts'
import { purchaseChecks } from './ledger-verify-purchase.ts'

export interface Finding {
  readonly check: string
  readonly subject: string
  readonly detail: string
}

/** The checks read every row, which takes longer than the limit of a request. */
const VERIFY_TIMEOUT_MS = 10 * 60_000

export async function readWholeLedger<T>(database: Database, read: (db: Db) => Promise<T>): Promise<T> {
  return readSnapshot(database, async (db) => {
    await sql`select set_config('statement_timeout', ${VERIFY_TIMEOUT_MS.toString()}, true)`.execute(db)
    return read(db)
  })
}

export async function runCheck(
  db: Db,
  check: LedgerCheck,
  limit: number,
): Promise<{ rows: number; total: number; findings: Finding[] }> {
  const counts = await sql<{ rows: bigint }>`select count(*) as rows from ${check.over} counted`.execute(db)
  const { rows } = await sql<{ subject: string; detail: string; total: bigint }>`
    select subject, detail, count(*) over () as total from (${check.offending}) offending
    order by subject, detail limit ${limit}`.execute(db)
  return {
    rows: Number.parseInt(String(counts.rows[0]?.rows ?? 0), 10),
    total: Number.parseInt(String(rows[0]?.total ?? 0), 10),
    findings: rows.map(({ subject, detail }) => ({ check: check.name, subject, detail })),
  }
}

/** Enough results to show when a fault appeared. */
const MAX_CHECKS_KEPT = 100

export async function saveLedgerCheck(database: Database, check: { tookMs: number; findings: number }): Promise<void> {
  await transact(database, async (tx) => {
    const { id } = await tx.db
      .insertInto('ledger_check')
      .values({ at: toDate(tx.clock.now()), took_ms: check.tookMs, findings: check.findings })
      .returning('id')
      .executeTakeFirstOrThrow()
    await tx.db
      .deleteFrom('ledger_check')
      .where('id', '<=', id - BigInt(MAX_CHECKS_KEPT))
      .execute()
  })
}

export async function findLastLedgerCheck(db: Db): Promise<{ at: Instant; findings: number } | undefined> {
  return db.selectFrom('ledger_check').select(['at', 'findings']).orderBy('id', 'desc').limit(1).executeTakeFirst()
}

/** The house has no stored balances: they are the sums of its transfers. */
export async function readHouse(db: Db): Promise<Map<string, NanoUsd>> {
  const { rows } = await sql<{ kind: string; balance: string }>`
    select l.kind, coalesce(m.change, 0)::text as balance
    from ledger_account l left join ${transferSums} m using (id)
    where l.account_id is null order by l.kind`.execute(db)
  return new Map(rows.map((row) => [row.kind, nanoUsdOf(BigInt(row.balance))]))
}

/** Incoming minus outgoing transfers of each ledger account. */
const transferSums = sql`(
  select id, sum(change) as change
  from (select to_id as id, amount_nano as change from transfer
        union all select from_id, -amount_nano from transfer) legs
  group by id)`

/** The segment id in a posting key `segment:<id>:<n>`. (Capturing it with a pattern takes three times as long.) */
const segmentId = sql`case when p.key ~ '^segment:[0-9]+:[0-9]+$' and length(split_part(p.key, ':', 2)) < 19
  then split_part(p.key, ':', 2)::bigint end`

/** The charges of each segment minus refunds, and the supplier's share minus what was taken back. */
const chargeSums = sql`(
  select p.segment_id,
         coalesce(sum(t.amount_nano) filter (where f.kind in ('held', 'available')), 0)
           - coalesce(sum(t.amount_nano) filter (where e.kind = 'held'), 0) as charged,
         coalesce(sum(t.amount_nano) filter (where e.kind = 'earnings' and e.account_id = s.supplier_id), 0)
           - coalesce(sum(t.amount_nano) filter (where f.kind = 'earnings' and f.account_id = s.supplier_id), 0) as to_supplier
  from (select p.id, ${segmentId} as segment_id from posting p where p.kind in ('charge', 'refund')) p
  join transfer t on t.posting_id = p.id
  join ledger_account f on f.id = t.from_id
  join ledger_account e on e.id = t.to_id
  left join segment s on s.id = p.segment_id
  where p.segment_id is not null
  group by p.segment_id)`

/** Whole milliseconds between two instants, as a numeric. */
const ms = (from: string, until: string) => sql`floor(extract(epoch from ${sql.ref(until)} - ${sql.ref(from)}) * 1000)`

/** Start and end of the segments of each rental; `bill_ends` is null while one is open. */
const billSpans = sql`(
  select r.id, r.status, r.status_since, r.started_at, r.terminate_requested_at, r.seen_at,
         min(s.started_at) as bill_starts,
         case when bool_or(s.ended_at is null) then null else max(s.ended_at) end as bill_ends,
         max(s.price_nano_per_hour) as price
  from rental r join segment s on s.rental_id = r.id
  group by r.id)`

/** The amount released when a rental's hold closed. */
const releaseAmounts = sql`(
  select split_part(p.key, ':', 3) as rental_id, sum(t.amount_nano) as amount
  from posting p join transfer t on t.posting_id = p.id
  where p.kind = 'release' and p.key like 'release:rental:%'
  group by 1)`

export const ledgerChecks: readonly LedgerCheck[] = [
  {
    name: 'balance_is_its_transfers',
    over: sql`(select from ledger_account where account_id is not null)`,
    offending: sql`
      select l.account_id || ' ' || l.kind as subject,
             format('balance %s, transfers %s', l.balance_nano, coalesce(m.change, 0)) as detail
      from ledger_account l left join ${transferSums} m using (id)
      where l.account_id is not null and l.balance_nano is distinct from coalesce(m.change, 0)`,
  },
  {
    name: 'ledger_sums_to_zero',
    over: sql`ledger_account`,
    offending: sql`
      select 'ledger' as subject, format('sums to %s', total) as detail
      from (select sum(case when l.account_id is null then coalesce(m.change, 0) else l.balance_nano end) as total
            from ledger_account l left join ${transferSums} m using (id)) ledger
      where total <> 0`,
  },
  {
    name: 'never_below_zero',
    over: sql`(select from ledger_account where account_id is not null union all select from hold)`,
    offending: sql`
      select account_id || ' ' || kind as subject, format('balance %s', balance_nano) as detail
      from ledger_account where balance_nano < 0
      union all select key, format('hold of %s', amount_nano) from hold where amount_nano < 0`,
  },
  {
    name: 'holds_are_what_is_held',
    over: sql`(select from ledger_account where kind = 'held')`,
    offending: sql`
      select l.account_id as subject, format('held %s, holds %s', l.balance_nano, coalesce(h.amount, 0)) as detail
      from ledger_account l
      left join (select account_id, sum(amount_nano) as amount from hold group by account_id) h using (account_id)
      where l.kind = 'held' and l.balance_nano <> coalesce(h.amount, 0)`,
  },
  {
    name: 'posting_has_transfers',
    over: sql`posting`,
    offending: sql`
      select p.key as subject, format('%s without a transfer', p.kind) as detail
      from posting p where not exists (select 1 from transfer t where t.posting_id = p.id)`,
  },
  {
    // Otherwise a statement would not add up to the balance.
    name: 'posting_moves_its_own_balance',
    over: sql`transfer`,
    offending: sql`
      select p.key as subject, format('is on the statement of %s but moves money of %s', p.account_id, l.account_id) as detail
      from transfer t
      join posting p on p.id = t.posting_id
      join ledger_account l on l.id in (t.from_id, t.to_id)
      where l.kind in ('available', 'held') and l.account_id <> p.account_id`,
  },
  {
    name: 'segment_settled_is_its_charges',
    over: sql`segment`,
    offending: sql`
      select 'segment ' || coalesce(s.id, c.segment_id) as subject,
             format('settled %s, charged %s', coalesce(s.settled_nano, 0), coalesce(c.charged, 0)) as detail
      from segment s full join ${chargeSums} c on c.segment_id = s.id
      where s.id is null or s.settled_nano <> coalesce(c.charged, 0)`,
  },
  {
    name: 'segment_settled_to_the_millisecond',
    over: sql`segment`,
    offending: sql`
      select 'segment ' || s.id as subject,
             format('settled %s until %s, expected %s', s.settled_nano, s.settled_until, worth.nano)
               || case when s.ended_at <> s.settled_until then format(', but ended at %s', s.ended_at) else '' end as detail
      from segment s
      cross join lateral (
        select div(s.price_nano_per_hour * ${ms('s.started_at', 's.settled_until')}, 3600000) as nano) worth
      where s.settled_nano <> worth.nano or s.ended_at <> s.settled_until`,
  },
  {
    name: 'supplier_gets_its_share',
    over: sql`(select from segment where supplier_id is not null)`,
    offending: sql`
      select 'segment ' || s.id as subject,
             format('share %s, recorded %s, paid %s', share.nano, s.supplier_nano, coalesce(c.to_supplier, 0)) as detail
      from segment s
      left join ${chargeSums} c on c.segment_id = s.id
      cross join lateral (
        select coalesce(div(s.settled_nano::numeric * (10000 - s.platform_fee_bp), 10000), 0) as nano) share
      where s.supplier_nano <> share.nano or s.supplier_nano <> coalesce(c.to_supplier, 0)`,
  },
  {
    name: 'segments_follow_one_another',
    over: sql`segment`,
    offending: sql`
      select coalesce('rental ' || rental_id, 'volume ' || volume_id) as subject,
             case when started_at < before then format('segment %s begins at %s, before %s', id, started_at, before)
                  else format('nothing metered from %s to %s', before, started_at) end as detail
      from (select id, rental_id, volume_id, started_at,
                   max(coalesce(ended_at, 'infinity')) over (partition by rental_id, volume_id
                     order by started_at, id rows between unbounded preceding and 1 preceding) as before
            from segment) s
      -- A volume that was suspended for lack of money has gaps; a rental never has.
      where started_at < before or (rental_id is not null and started_at > before)`,
  },
  {
    name: 'bill_begins_with_the_rental',
    over: sql`(select from rental where started_at is not null)`,
    offending: sql`
      select 'rental ' || r.id as subject, format('started at %s, metered from %s', r.started_at, m.bill_starts) as detail
      from rental r left join ${billSpans} m on m.id = r.id
      where r.started_at is distinct from m.bill_starts`,
  },
  {
    name: 'bill_ends_with_the_rental',
    over: sql`(select from rental where terminate_requested_at is not null)`,
    // The bill may end sooner: when a lost machine was last seen, at a failure, or when the money ran out. In the last
    // case, the hold released less than the price of a millisecond.
    offending: sql`
      select 'rental ' || m.id as subject, format('metered until %s, ended at %s', m.bill_ends, m.terminate_requested_at) as detail
      from ${billSpans} m
      left join ${releaseAmounts} g on g.rental_id = m.id::text
      where m.bill_ends > m.terminate_requested_at
         or m.bill_ends < m.terminate_requested_at and m.bill_ends is distinct from m.seen_at
            and coalesce(g.amount, 0) * 3600000 >= greatest(m.price, 1)
            and not exists (select 1 from event e where e.subject_kind = 'rental' and e.subject_id = m.id::text
                              and e.type = 'rental.failed' and e.at >= m.bill_ends)
         or m.status = 'Failed' and m.bill_ends > m.status_since`,
  },
  {
    name: 'what_runs_is_metered',
    over: sql`(select from rental where status in (${meteredStates}) union all select from volume where state = 'active')`,
    offending: sql`
      select 'rental ' || r.id as subject, format('%s without a meter', r.status) as detail
      from rental r where r.status in (${meteredStates})
        and not exists (select 1 from segment s where s.rental_id = r.id and s.ended_at is null)
      union all select 'volume ' || v.id, 'active without a meter'
      from volume v where v.state = 'active'
        and not exists (select 1 from segment s where s.volume_id = v.id and s.ended_at is null)`,
  },
  {
    name: 'what_ended_costs_nothing',
    over: sql`(select from rental where status not in (${meteredStates})
               union all select from volume where state in ('deleting', 'deleted', 'failed'))`,
    offending: sql`
      select 'rental ' || r.id as subject, format('%s, and its meter runs', r.status) as detail
      from rental r join segment s on s.rental_id = r.id and s.ended_at is null
      where r.status not in (${meteredStates}) or r.released_at is not null
      union all select 'volume ' || v.id, format('%s, and its meter runs', v.state)
      from volume v join segment s on s.volume_id = v.id and s.ended_at is null where v.state in ('deleting', 'deleted', 'failed')
      union all select 'rental ' || r.id, format('%s, and %s is held', r.status, h.amount_nano)
      from rental r join hold h on h.key = 'rental:' || r.id and h.amount_nano > 0
      where r.status = 'Terminated' or r.released_at is not null
      union all select 'volume ' || v.id, format('%s, and %s is held', v.state, h.amount_nano)
      from volume v join hold h on h.key = 'volume:' || v.id and h.amount_nano > 0 where v.state = 'deleted'`,
  },
  {
    // From the instant the machine is off until it runs again, only the disk is paid for.
    name: 'stopped_rentals_pay_for_their_disk_only',
    over: sql`(select from segment where while_stopped)`,
    offending: sql`
      select 'rental ' || r.id as subject,
             format('%s, and its open segment is %s', r.status, case when s.while_stopped then 'for the disk' else 'for the machine' end) as detail
      from rental r join segment s on s.rental_id = r.id and s.ended_at is null
      where r.status in (${sqlStates(({ billing }) => billing === 'disk')}) and not s.while_stopped
         or r.status in (${machineBilledStates}) and s.while_stopped
      union all select 'rental ' || r.id, format('pays %s for its disk, shown was %s', s.price_nano_per_hour, r.stopped_nano_per_hour)
      from rental r join segment s on s.rental_id = r.id and s.ended_at is null and s.while_stopped
      where s.price_nano_per_hour is distinct from r.stopped_nano_per_hour
      union all select 'rental ' || r.id, format('%s, and claims %s GPUs', r.status, count(*))
      from rental r join gpu_claim c on c.rental_id = r.id 
      where r.status in (${sqlStates(({ holdsGpus }) => !holdsGpus)}) group by r.id`,
  },
  {
    // A rental that runs without its GPUs pays the price that was shown for that state, and claims no GPUs.
    name: 'rentals_without_gpus_pay_for_their_cpus_only',
    over: sql`(select from segment where without_gpus)`,
    offending: sql`
      select 'rental ' || r.id as subject, format('pays %s without its GPUs, shown was %s', s.price_nano_per_hour, r.cpu_nano_per_hour) as detail
      from rental r join segment s on s.rental_id = r.id and s.ended_at is null and s.without_gpus
      where s.price_nano_per_hour is distinct from r.cpu_nano_per_hour
      union all select 'rental ' || r.id, format('%s without its GPUs, and pays for them', r.status)
      from rental r join segment s on s.rental_id = r.id and s.ended_at is null and not s.without_gpus and not s.while_stopped
      where r.cpu_nano_per_hour is not null and s.price_nano_per_hour > 0
      union all select 'rental ' || r.id, format('runs without its GPUs, and claims %s', count(*))
      from rental r join gpu_claim c on c.rental_id = r.id where r.cpu_nano_per_hour is not null group by r.id`,
  },
  ...batchChecks,
  ...commitmentChecks,
  ...dayChecks,
  ...paymentChecks,
  ...purchaseChecks,
  {
    name: 'gpus_claimed_are_counted',
    over: sql`machine`,
    offending: sql`
      select 'machine ' || m.id as subject, format('%s recorded, %s claimed', m.gpus_claimed, coalesce(c.n, 0)) as detail
      from machine m left join (select machine_id, count(*) as n from gpu_claim group by machine_id) c on c.machine_id = m.id
      where m.gpus_claimed <> coalesce(c.n, 0)`,
  },
  {
    name: 'disks_are_counted',
    over: sql`machine`,
    offending: sql`
      select 'machine ' || m.id as subject, format('%s GB recorded, %s GB rented', m.disk_claimed_gb, coalesce(d.gb, 0)) as detail
      from machine m left join (
        select machine_id, sum(disk_gb(r.spec)) as gb from rental r, machines_of(r.spec) machine_id
        where r.released_at is null group by machine_id) d on d.machine_id = m.id
      where m.disk_claimed_gb <> coalesce(d.gb, 0)`,
  },
  {
    name: 'gpus_claimed_are_in_use',
    over: sql`gpu_claim`,
    offending: sql`
      select format('machine %s GPU %s', c.machine_id, c.gpu_index) as subject,
             format('claimed by rental %s, which was released at %s', r.id, r.released_at) as detail
      from gpu_claim c join rental r on r.id = c.rental_id where r.released_at is not null`,
  },
  {
    name: 'key_spend_is_its_charges',
    over: sql`key_spend`,
    offending: sql`
      select format('key %s %s', api_key_id, to_char(month, 'YYYY-MM')) as subject,
             format('recorded %s, charged %s', coalesce(k.spent_nano, 0), coalesce(c.charged, 0)) as detail
      from key_spend k
      full join (select p.api_key_id, date_trunc('month', p.at at time zone 'UTC')::date as month, sum(t.amount_nano) as charged
                 from posting p
                 join transfer t on t.posting_id = p.id
                 join ledger_account f on f.id = t.from_id and f.kind in ('held', 'available')
                 where p.kind = 'charge' and p.api_key_id is not null
                 group by 1, 2) c using (api_key_id, month)
      where coalesce(k.spent_nano, 0) <> coalesce(c.charged, 0)`,
  },
  {
    // A settlement writes both in one transaction, so they never differ.
    name: 'requests_are_what_is_charged',
    over: sql`request_day`,
    offending: sql`
      select format('%s key %s model %s', account_id, api_key, model) as subject,
             format('requests cost %s, charged %s', coalesce(q.cost, 0), coalesce(c.charged, 0)) as detail
      from (select account_id, coalesce(nullif(api_key_id, ''), 'none') as api_key, model, sum(cost_nano) as cost
            from request_day group by 1, 2, 3) q
      full join (select p.account_id, coalesce(p.api_key_id, 'none') as api_key, p.model, sum(t.amount_nano) as charged
                 from posting p
                 join transfer t on t.posting_id = p.id
                 join ledger_account f on f.id = t.from_id and f.kind in ('held', 'available')
                 where p.kind = 'charge' and p.model is not null
                 group by 1, 2, 3) c using (account_id, api_key, model)
      where coalesce(q.cost, 0) <> coalesce(c.charged, 0)`,
  },
  {
    name: 'request_days_are_their_requests',
    over: sql`request`,
    offending: sql`
      select format('%s on %s key %s model %s', account_id, day, api_key_id, model) as subject,
             format('%s requests for %s, summed %s for %s', coalesce(r.requests, 0), coalesce(r.cost, 0), coalesce(d.requests, 0), coalesce(d.cost_nano, 0)) as detail
      from (select account_id::text, (at at time zone 'UTC')::date as day, api_key_id, model,
                   count(*) as requests, sum(cost_nano) as cost, sum(input_units) as input, sum(output_units) as output
            from request group by 1, 2, 3, 4) r
      full join (select * from request_day where day >= (select (before at time zone 'UTC')::date from request_thinned)) d
        using (account_id, day, api_key_id, model)
      where (r.requests, r.cost, r.input, r.output) is distinct from (d.requests, d.cost_nano, d.input_units, d.output_units)`,
  },
  {
    // Otherwise its money would be lost, or be released to another account.
    name: 'purse_is_a_hold_with_an_end',
    over: sql`purse`,
    offending: sql`
      select p.hold_key as subject,
             format('purse of %s key %s, hold of %s until %s', p.account_id, p.api_key_id, h.account_id, h.expires_at) as detail
      from purse p
      left join hold h on h.key = p.hold_key
      left join api_key k on k.public_id = p.api_key_id
      where h.account_id is distinct from p.account_id or h.expires_at is null or k.account_id <> p.account_id
      union all
      select h.key, format('%s held, but by no gateway', h.amount_nano)
      from hold h where h.key like 'purse:%' and not exists (select 1 from purse p where p.hold_key = h.key)`,
  },
]
