/** Ledger checks of reserved terms and credit lines; see ledger-verify.ts. */
import { reservedStates } from '../rental/state-list.ts'
import { sql } from 'kysely'
import type { LedgerCheck } from './ledger-check.ts'

/** The term of each commitment, the sums of its segments in that term, and the postings for an early end. */
const commitmentSums = sql`(
  select c.*, t.effective_at, t.reservation_ends_at, t.cost_nano_per_hour, r.status, r.status_reason,
         coalesce(u.ms, 0) as ms, coalesce(u.charged, 0) as charged,
         coalesce(h.amount_nano, 0) as held, coalesce(p.extra, 0) as extra_posted, coalesce(p.share, 0) as share_posted,
         f.platform_fee_bp
  from commitment c
  join rental r on r.id = c.rental_id
  join term t on t.rental_id = c.rental_id and t.term_type = 'reserved'
  left join hold h on h.key = 'rental:' || c.rental_id
  left join lateral (
    select sum(floor(extract(epoch from s.settled_until - s.started_at) * 1000)) filter (where s.price_nano_per_hour > 0) as ms,
           sum(s.settled_nano) as charged
    from segment s where s.rental_id = c.rental_id and s.started_at < t.reservation_ends_at) u on true
  left join lateral (
    select s.platform_fee_bp from segment s where s.rental_id = c.rental_id order by s.started_at desc limit 1) f on true
  left join lateral (
    select sum(m.amount_nano) filter (where l.kind = 'held') as extra,
           sum(m.amount_nano) filter (where e.kind = 'earnings') as share
    from posting p join transfer m on m.posting_id = p.id
    join ledger_account l on l.id = m.from_id join ledger_account e on e.id = m.to_id
    where p.key = 'rerate:' || c.rental_id) p on true)`

/** The price of the longest term completed by the end; days are 86,400 seconds, in any session time zone. */
const earnedRate = sql`(
  select (step ->> 'nanoPerHour')::bigint from jsonb_array_elements(m.rates) step
  where m.effective_at + make_interval(secs => (step ->> 'days')::numeric::double precision * 86400) <= m.closed_at
  order by (step ->> 'days')::numeric desc limit 1)`

export const commitmentChecks: readonly LedgerCheck[] = [
  {
    name: 'commitment_is_held',
    over: sql`(select from commitment where closed_at is null)`,
    offending: sql`
      select 'rental ' || m.rental_id as subject,
             format('the term costs %s, charged %s, held %s', m.total_nano, m.charged, m.held) as detail
      from ${commitmentSums} m
      where m.closed_at is null and (m.held + m.charged <> m.total_nano or m.status not in (${reservedStates}))`,
  },
  {
    name: 'commitment_costs_no_more_than_its_term',
    over: sql`commitment`,
    offending: sql`
      select 'rental ' || m.rental_id as subject,
             format('the term costs %s, charged %s plus %s for an early end', m.total_nano, m.charged, m.rerated_nano) as detail
      from ${commitmentSums} m where m.charged + m.rerated_nano > m.total_nano`,
  },
  {
    name: 'early_end_is_rerated',
    over: sql`(select from commitment where closed_at is not null)`,
    // If the customer ends it early, the rate is that of the longest completed term. Every other end (the end of the
    // term, a failure, an unreachable machine, a broken GPU, all visible in events) keeps the price of the term.
    offending: sql`
      select 'rental ' || m.rental_id as subject,
             format('closed at rate %s (expected %s), extra charge %s (expected %s, posted %s)', m.closed_rate_nano, due.rate,
                    m.rerated_nano, due.extra, m.extra_posted) as detail
      from ${commitmentSums} m
      cross join lateral (select
        m.closed_at < m.reservation_ends_at and m.status_reason in ('customer_request', 'auto_terminate') and not m.at_fault
          as is_early) e
      cross join lateral (select case when e.is_early then ${earnedRate} else m.cost_nano_per_hour end as rate) r
      cross join lateral (select r.rate, case when r.rate <> m.cost_nano_per_hour
        then greatest(0, least(m.total_nano, div(r.rate * m.ms, 3600000)) - m.charged) else 0 end as extra) due
      where m.closed_at is not null and (m.rerated_nano <> due.extra or m.rerated_nano <> m.extra_posted
        or m.closed_rate_nano <> due.rate
        or m.at_fault and not exists (select 1 from event e where e.subject_kind = 'rental'
             and e.subject_id = m.rental_id::text and e.type in ('rental.failed', 'rental.unknown', 'rental.gpu_fault')))`,
  },
  {
    name: 'supplier_gets_its_share_of_early_ends',
    over: sql`(select from commitment where rerated_nano > 0)`,
    offending: sql`
      select 'rental ' || m.rental_id as subject,
             format('share %s, recorded %s, paid %s', share.nano, m.supplier_nano, m.share_posted) as detail
      from ${commitmentSums} m
      cross join lateral (
        select coalesce(div(m.rerated_nano::numeric * (10000 - m.platform_fee_bp), 10000), 0) as nano) share
      where m.supplier_nano <> share.nano or m.supplier_nano <> m.share_posted`,
  },
  {
    name: 'credit_used_is_what_was_drawn',
    over: sql`credit_line`,
    offending: sql`
      select coalesce(k.account_id, d.account_id) as subject,
             format('used %s, drawn and not repaid %s', coalesce(k.used_nano, 0), coalesce(d.nano, 0)) as detail
      from credit_line k
      full join (select c.account_id, sum(case when h.id = t.from_id then t.amount_nano else -t.amount_nano end) as nano
                 from transfer t
                 join ledger_account h on h.id in (t.from_id, t.to_id) and h.account_id is null and h.kind = 'credit'
                 join ledger_account c on c.id in (t.from_id, t.to_id) and c.account_id is not null
                 group by c.account_id) d on d.account_id = k.account_id
      where coalesce(k.used_nano, 0) <> coalesce(d.nano, 0)`,
  },
  {
    name: 'credit_is_repaid_first',
    over: sql`(select from credit_line where used_nano > 0)`,
    offending: sql`
      select k.account_id as subject, format('owes %s and has %s available', k.used_nano, l.balance_nano) as detail
      from credit_line k join ledger_account l on l.account_id = k.account_id and l.kind = 'available'
      where k.used_nano > 0 and l.balance_nano > 0`,
  },
]
