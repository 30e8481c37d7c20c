/** Ledger checks of the sums by day and month; see ledger-verify.ts. */
import { sql } from 'kysely'
import type { LedgerCheck } from './ledger-check.ts'

/** The change of an account's own money per day and kind of posting, from the transfers alone. */
const postingSums = sql`(
  select p.account_id, (p.at at time zone 'UTC')::date as day, p.kind,
         coalesce(p.rental_id, 0) as rental_id, coalesce(p.volume_id, 0) as volume_id,
         coalesce(p.api_key_id, '') as api_key_id, coalesce(p.model, '') as model,
         sum(case when t.to_id = own.id then t.amount_nano else -t.amount_nano end) as amount, count(distinct p.id) as postings
  from ledger_account own
  join transfer t on own.id in (t.from_id, t.to_id)
  join posting p on p.id = t.posting_id and p.account_id = own.account_id
  where own.kind in ('available', 'held') and p.kind not in ('hold', 'release')
  group by 1, 2, 3, 4, 5, 6, 7)`

export const dayChecks: readonly LedgerCheck[] = [
  {
    name: 'days_are_what_was_posted',
    over: sql`ledger_day`,
    offending: sql`
      select format('%s %s %s rental %s volume %s', account_id, day, kind, rental_id, volume_id) as subject,
             format('key %s model %s: recorded %s in %s, posted %s in %s', api_key_id, model, coalesce(d.amount_nano, 0), coalesce(d.postings, 0),
               coalesce(p.amount, 0), coalesce(p.postings, 0)) as detail
      from (select account_id, day, kind, rental_id, volume_id, api_key_id, model,
                   sum(amount_nano) as amount_nano, sum(postings) as postings
            from ledger_day group by 1, 2, 3, 4, 5, 6, 7) d
      full join ${postingSums} p using (account_id, day, kind, rental_id, volume_id, api_key_id, model)
      where (d.amount_nano, d.postings) is distinct from (p.amount, p.postings)`,
  },
  {
    name: 'account_spend_is_its_charges',
    over: sql`account_spend`,
    offending: sql`
      select format('%s %s', account_id, to_char(month, 'YYYY-MM')) as subject,
             format('recorded %s, charged %s', coalesce(s.spent_nano, 0), coalesce(c.spent, 0)) as detail
      from account_spend s
      full join (select account_id, date_trunc('month', day)::date as month, -sum(amount) as spent
                 from ${postingSums} p where kind in ('charge', 'refund') group by 1, 2) c using (account_id, month)
      where s.spent_nano is distinct from c.spent`,
  },
]
