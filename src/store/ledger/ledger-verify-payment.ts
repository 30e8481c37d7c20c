/** Ledger checks of payments, refunds, disputes, tax and debts; see ledger-verify.ts. */
import { sql, type RawBuilder } from 'kysely'
import type { LedgerCheck } from './ledger-check.ts'
import { payoutChecks } from './ledger-verify-payout.ts'

/** Sums by posting of what moved between the account's money, debts, the processor and tax. */
const moved = (pattern: string): RawBuilder<unknown> => sql`(
  select p.key, p.account_id, p.kind,
         coalesce(sum(case when t.to_id = c.id then t.amount_nano else -t.amount_nano end)
           filter (where f.kind in ('available', 'receivables') or g.kind in ('available', 'receivables')), 0) as net,
         coalesce(sum(case when t.to_id = c.id then t.amount_nano else -t.amount_nano end)
           filter (where f.kind = 'tax' or g.kind = 'tax'), 0) as tax
  from posting p
  join transfer t on t.posting_id = p.id
  join ledger_account c on c.kind = 'processor' and c.id in (t.from_id, t.to_id)
  join ledger_account f on f.id = t.from_id
  join ledger_account g on g.id = t.to_id
  where p.key like ${pattern}
  group by p.id)`

/** Dispute postings added up by dispute: taken, and given back. */
const disputeSums = sql`(
  select split_part(key, ':', 2) as id,
         sum(net) filter (where kind = 'dispute') as net, sum(tax) filter (where kind = 'dispute') as tax,
         coalesce(-sum(net) filter (where kind = 'dispute_return'), 0) as net_back,
         coalesce(-sum(tax) filter (where kind = 'dispute_return'), 0) as tax_back
  from ${moved('stripe-dispute:%')} m group by 1)`

export const paymentChecks: readonly LedgerCheck[] = [
  ...payoutChecks,
  {
    name: 'payments_are_their_postings',
    over: sql`(select from payment where state = 'paid')`,
    offending: sql`
      select coalesce('payment ' || y.id, m.key) as subject,
             format('%s of %s plus tax %s, posted %s and %s', coalesce(y.state, 'none'), y.amount_nano, y.tax_nano, -m.net, -m.tax) as detail
      from (select * from payment where state = 'paid') y
      full join ${moved('stripe:%')} m on m.key = 'stripe:' || y.intent_id
      where y.id is null or m.key is null or y.account_id <> m.account_id
        or (y.amount_nano, y.tax_nano) is distinct from (-m.net, -m.tax)`,
  },
  {
    name: 'refunds_are_their_postings',
    over: sql`payment_refund`,
    offending: sql`
      select coalesce('refund ' || r.id, m.key) as subject,
             format('%s of %s and tax %s, posted %s and %s', coalesce(r.state, 'none'), r.amount_nano, r.tax_nano, m.net, m.tax) as detail
      from (select r.*, 'stripe-refund:' || r.id as key, 1 as sign from payment_refund r
            union all select r.*, 'stripe-refund:' || r.id || ':return', -1 from payment_refund r where r.state = 'failed') r
      full join ${moved('stripe-refund:%')} m on m.key = r.key
      where (r.sign * r.amount_nano, r.sign * r.tax_nano) is distinct from (m.net, m.tax)`,
  },
  {
    name: 'disputes_are_their_postings',
    over: sql`payment_dispute`,
    offending: sql`
      select 'dispute ' || coalesce(d.id, m.id) as subject,
             format('took %s and tax %s, returned: %s; posted %s and %s, back %s and %s', d.taken_nano, d.tax_nano, d.is_returned,
               m.net, m.tax, m.net_back, m.tax_back) as detail
      from payment_dispute d full join ${disputeSums} m on m.id = d.id
      where d.id is null
        or (d.taken_nano, d.tax_nano) is distinct from (coalesce(m.net, 0), coalesce(m.tax, 0))
        or (case when d.is_returned then d.taken_nano else 0 end, case when d.is_returned then d.tax_nano else 0 end)
           is distinct from (coalesce(m.net_back, 0), coalesce(m.tax_back, 0))`,
  },
  {
    name: 'payments_are_not_overdrawn',
    over: sql`payment`,
    offending: sql`
      select 'payment ' || y.id as subject,
             format('paid %s and tax %s, taken %s and tax %s', y.amount_nano, y.tax_nano, t.amount, t.tax) as detail
      from payment y
      join (select payment_id, sum(amount) as amount, sum(tax) as tax from (
              select payment_id, amount_nano as amount, tax_nano as tax from payment_refund where state <> 'failed'
              union all select payment_id, taken_nano, tax_nano from payment_dispute where not is_returned) parts
            group by payment_id) t on t.payment_id = y.id
      where t.amount > case when y.state = 'paid' then y.amount_nano else 0 end
         or t.tax > case when y.state = 'paid' then y.tax_nano else 0 end`,
  },
  {
    name: 'tax_is_what_was_paid',
    over: sql`(select from ledger_account where kind = 'tax')`,
    offending: sql`
      select 'tax' as subject, format('booked %s, payments less refunds and disputes %s', booked, due) as detail
      from (select
        (select coalesce(sum(case when t.to_id = l.id then t.amount_nano else -t.amount_nano end), 0)
         from ledger_account l join transfer t on l.id in (t.from_id, t.to_id) where l.kind = 'tax') as booked,
        (select coalesce(sum(tax_nano), 0) from payment where state = 'paid')
          - (select coalesce(sum(tax_nano), 0) from payment_refund where state <> 'failed')
          - (select coalesce(sum(tax_nano), 0) from payment_dispute where not is_returned) as due) sums
      where booked <> due`,
  },
  {
    name: 'debts_are_what_was_lent',
    over: sql`account_debt`,
    offending: sql`
      select coalesce(d.account_id, s.account_id) as subject,
             format('owes %s, left by disputes and not repaid %s', coalesce(d.owed_nano, 0), coalesce(s.nano, 0)) as detail
      from account_debt d
      full join (select p.account_id, sum(case when t.from_id = l.id then t.amount_nano else -t.amount_nano end) as nano
                 from ledger_account l join transfer t on l.id in (t.from_id, t.to_id) join posting p on p.id = t.posting_id
                 where l.kind = 'receivables' group by 1) s on s.account_id = d.account_id
      where coalesce(d.owed_nano, 0) <> coalesce(s.nano, 0)`,
  },
  {
    name: 'debt_is_repaid_first',
    over: sql`account_debt`,
    offending: sql`
      select d.account_id as subject, format('owes %s and has %s available', d.owed_nano, l.balance_nano) as detail
      from account_debt d join ledger_account l on l.account_id = d.account_id and l.kind = 'available'
      where d.owed_nano > 0 and l.balance_nano > 0`,
  },
  {
    name: 'processor_fees_are_its_transactions',
    over: sql`(select from processor_transaction where currency = 'usd')`,
    offending: sql`
      select coalesce('transaction ' || f.id, m.key) as subject,
             format('fee of %s, booked %s', f.nano, m.net) as detail
      from (select id, (fee_cents - case kind when 'fee' then cents else 0 end) * 10000000 as nano
            from processor_transaction where currency = 'usd') f
      full join (
        select p.key, sum(case when t.from_id = l.id then t.amount_nano else -t.amount_nano end) as net
        from ledger_account l join transfer t on l.id in (t.from_id, t.to_id) join posting p on p.id = t.posting_id
        where l.kind = 'processor_fees' group by p.id) m on m.key = 'stripe-fee:' || f.id
      where coalesce(f.nano, 0) <> coalesce(m.net, 0)`,
  },
  {
    name: 'automatic_payments_stay_within_caps',
    over: sql`(select from payment where kind = 'automatic')`,
    offending: sql`
      select 'payment ' || id as subject, format('with those before it in the month %s, the cap is %s', total, cap_nano) as detail
      from (select id, cap_nano, sum(amount_nano + coalesce(tax_nano, 0)) over (
              partition by account_id, date_trunc('month', created_at at time zone 'UTC') order by created_at, id) as total
            from payment where kind = 'automatic' and state in ('open', 'paid')) y
      where total > cap_nano`,
  },
]
