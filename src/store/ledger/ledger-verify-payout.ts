/** Ledger checks of payouts and bank files; see ledger-verify.ts. */
import { sql, type RawBuilder } from 'kysely'
import type { LedgerCheck } from './ledger-check.ts'

/** Sums by posting of what moved out of the earnings of its account, or into them. */
const moved = (pattern: string): RawBuilder<unknown> => sql`(
  select p.key, p.account_id, sum(case when t.from_id = l.id then t.amount_nano else -t.amount_nano end) as net
  from posting p
  join transfer t on t.posting_id = p.id
  join ledger_account l on l.kind = 'earnings' and l.id in (t.from_id, t.to_id)
  where p.key like ${pattern}
  group by p.id)`

export const payoutChecks: readonly LedgerCheck[] = [
  {
    name: 'payouts_are_their_postings',
    over: sql`payout`,
    offending: sql`
      select coalesce('payout ' || y.id, m.key) as subject,
             format('%s of %s to %s, posted %s of %s', coalesce(y.state, 'none'), y.amount_nano, y.account_id, m.net, m.account_id) as detail
      from (select * from payout where state not in ('draft', 'canceled')) y
      full join ${moved('payout:po_%')} m on m.key = 'payout:' || y.id
      where (y.amount_nano, y.account_id) is distinct from (m.net, m.account_id)`,
  },
  {
    name: 'payout_returns_are_their_postings',
    over: sql`payout_return`,
    offending: sql`
      select coalesce('payout return ' || r.id, m.key) as subject, format('%s came back, posted %s', r.amount_nano, -m.net) as detail
      from payout_return r
      full join ${moved('payout-return:%')} m on m.key = 'payout-return:' || r.id
      where r.amount_nano is distinct from -m.net
         or (select account_id from payout y where y.id = r.payout_id) is distinct from m.account_id
      union all
      select 'payout ' || y.id, format('%s came back, recorded %s', coalesce(r.nano, 0), y.returned_nano)
      from payout y left join (select payout_id, sum(amount_nano) as nano from payout_return group by 1) r on r.payout_id = y.id
      where y.returned_nano <> coalesce(r.nano, 0)`,
  },
  {
    // Payouts until a run was approved came from charges before its holdback, and from payouts that came back.
    name: 'payouts_are_past_their_holdback',
    over: sql`(select from payout where state not in ('draft', 'canceled'))`,
    offending: sql`
      with moves as materialized (
        select l.account_id, p.at, p.kind, t.to_id = l.id as is_in, t.amount_nano as nano
        from ledger_account l
        join transfer t on l.id in (t.from_id, t.to_id)
        join posting p on p.id = t.posting_id
        where l.kind = 'earnings' and l.account_id in (select account_id from payout))
      select 'payout ' || y.id as subject,
             format('paid out %s, earned before the holdback %s', sum(m.nano) filter (where not m.is_in and m.kind = 'payout'),
               sum(m.nano) filter (where m.is_in and (m.kind <> 'charge' or m.at < r.until))) as detail
      from payout y
      join payout_run r on r.id = y.run_id
      join moves m on m.account_id = y.account_id and m.at <= r.approved_at
      where y.state not in ('draft', 'canceled')
      group by y.id
      having sum(m.nano) filter (where not m.is_in and m.kind = 'payout')
        > coalesce(sum(m.nano) filter (where m.is_in and (m.kind <> 'charge' or m.at < r.until)), 0)`,
  },
  {
    name: 'bank_files_add_up',
    over: sql`(select from payout_run where exported_at is not null)`,
    offending: sql`
      select 'payout run ' || r.id as subject, format('exported %s cents, its payouts %s', r.exported_cents, coalesce(y.cents, 0)) as detail
      from payout_run r
      left join (select run_id, sum(exported_cents) as cents from payout group by 1) y on y.run_id = r.id
      where coalesce(r.exported_cents, 0) <> coalesce(y.cents, 0)
      union all
      select 'payout ' || y.id, format('%s cents of %s in the file', y.exported_cents, y.amount_nano)
      from payout y join payout_run r on r.id = y.run_id
      where y.exported_cents <> trunc(y.amount_nano / 10000000 * coalesce(r.rate, 1))`,
  },
]
