/** Ledger checks of credit that was given: grants, what expired of them, vouchers; see ledger-verify.ts. */
import { sql } from 'kysely'
import type { LedgerCheck } from './ledger-check.ts'

/** Sums by account of the money that went to others, without expired credit: charges by day, and the few other postings. */
const spent = sql`(
  select account_id, sum(nano) as nano from (
    select account_id, -amount_nano as nano from ledger_day where kind = 'charge'
    union all
    select p.account_id, t.amount_nano
    from posting p
    join transfer t on t.posting_id = p.id
    join ledger_account f on f.id = t.from_id and f.account_id = p.account_id and f.kind = 'available'
    where p.kind in ('adjustment', 'payment_refund', 'dispute', 'debt_repayment', 'credit_repayment')) parts
  group by account_id)`

export const creditChecks: readonly LedgerCheck[] = [
  {
    name: 'grants_are_their_postings',
    over: sql`credit_grant`,
    offending: sql`
      select coalesce('grant ' || g.id, m.key) as subject,
             format('gave %s, posted %s', coalesce(g.amount_nano, 0), coalesce(m.nano, 0)) as detail
      from credit_grant g
      full join (
        select p.key, p.account_id, sum(t.amount_nano) as nano
        from posting p
        join transfer t on t.posting_id = p.id
        join ledger_account l on l.id = t.to_id and l.account_id = p.account_id and l.kind = 'available'
        where p.kind = 'credit' and (p.key like 'grant:%' or exists (select from credit_grant g where g.posting_key = p.key))
        group by p.id) m on m.key = g.posting_key
      where g.id is null or m.key is null or g.account_id <> m.account_id or g.amount_nano <> m.nano`,
  },
  {
    name: 'expired_credit_is_its_postings',
    over: sql`(select from credit_grant where taken_nano > 0)`,
    offending: sql`
      select 'grant ' || coalesce(g.id, m.id) as subject,
             format('took back %s, posted %s', coalesce(g.taken_nano, 0), coalesce(m.nano, 0)) as detail
      from credit_grant g
      full join (
        select split_part(p.key, ':', 2) as id, min(p.account_id) as account_id, min(p.at) as at, sum(t.amount_nano) as nano
        from posting p join transfer t on t.posting_id = p.id
        where p.kind = 'credit_expiry' group by 1) m on m.id = g.id
      where g.id is null or coalesce(g.taken_nano, 0) <> coalesce(m.nano, 0) or g.account_id <> m.account_id
        or m.at < g.expires_at or (g.taken_nano > 0 and g.expires_at is null)`,
  },
  {
    name: 'grants_are_used_by_spending',
    over: sql`(select distinct account_id from credit_grant)`,
    offending: sql`
      select g.account_id as subject, format('used %s of grants, spent %s', g.nano, coalesce(s.nano, 0)) as detail
      from (select account_id, sum(used_nano) as nano from credit_grant group by 1) g
      left join ${spent} s on s.account_id = g.account_id
      where g.nano > coalesce(s.nano, 0)`,
  },
  {
    name: 'vouchers_are_their_uses',
    over: sql`voucher`,
    offending: sql`
      select 'voucher ' || v.id as subject, format('used %s times, has %s uses', v.used, coalesce(u.n, 0)) as detail
      from voucher v left join (select voucher_id, count(*) as n from voucher_use group by 1) u on u.voucher_id = v.id
      where v.used <> coalesce(u.n, 0)
      union all
      select 'grant ' || g.id, format('gave %s, its voucher %s', g.amount_nano, coalesce(v.amount_nano, 0))
      from credit_grant g
      left join voucher_use u on u.grant_id = g.id
      left join voucher v on v.id = u.voucher_id
      where (g.kind = 'voucher' or u.grant_id is not null)
        and (g.kind, g.amount_nano, g.account_id) is distinct from ('voucher', v.amount_nano, u.account_id)`,
  },
]
