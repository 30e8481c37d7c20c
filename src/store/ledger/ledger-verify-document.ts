/** Ledger checks of documents: they are what was paid and went back, and their numbers have no gap; see ledger-verify.ts. */
import { sql } from 'kysely'
import type { LedgerCheck } from './ledger-check.ts'

/** What each document about a payment must have, by kind and subject. Parts of a dispute are added up. */
const expected = sql`(
  select 'invoice' as kind, id as subject, account_id, amount_nano as amount, tax_nano as tax
    from payment where state = 'paid'
  union all
  select 'credit_note', r.id, y.account_id, r.amount_nano, r.tax_nano
    from payment_refund r join payment y on y.id = r.payment_id
  union all
  select 'invoice', r.id || ':return', y.account_id, r.amount_nano, r.tax_nano
    from payment_refund r join payment y on y.id = r.payment_id where r.state = 'failed'
  union all
  select 'credit_note', d.id, y.account_id, d.taken_nano, d.tax_nano
    from payment_dispute d join payment y on y.id = d.payment_id where d.takes > 0
  union all
  select 'invoice', d.id || ':return', y.account_id, d.taken_nano, d.tax_nano
    from payment_dispute d join payment y on y.id = d.payment_id where d.is_returned)`

const issued = sql`(
  select kind, case when kind = 'credit_note' then split_part(subject, ':', 1) else subject end as subject,
         account_id, sum(amount_nano) as amount, sum(tax_nano) as tax, min(issued_at) as issued_at
  from document where kind in ('invoice', 'credit_note') group by 1, 2, 3)`

export const documentChecks: readonly LedgerCheck[] = [
  {
    name: 'documents_are_what_was_paid',
    over: sql`document`,
    offending: sql`
      select i.kind || ' of ' || i.subject as subject,
             format('documents of %s and tax %s, the payment has %s and %s', i.amount, i.tax, e.amount, e.tax) as detail
      from ${issued} i left join ${expected} e on e.kind = i.kind and e.subject = i.subject and e.account_id = i.account_id
      where (i.amount, i.tax) is distinct from (e.amount, e.tax)`,
  },
  {
    // A payment that was credited before the operator issued documents has none, nor has what goes back of it.
    name: 'payments_have_documents',
    over: sql`(select from payment where state = 'paid')`,
    offending: sql`
      select 'payment ' || y.id as subject, format('no %s about %s', e.kind, e.subject) as detail
      from document d
      join payment y on y.id = d.subject and d.kind = 'invoice'
      join (
        select r.payment_id, 'credit_note' as kind, r.id as subject from payment_refund r
        union all select r.payment_id, 'invoice', r.id || ':return' from payment_refund r where r.state = 'failed'
        union all select p.payment_id, 'credit_note', p.id || ':' || n from payment_dispute p, generate_series(1, p.takes) n
        union all select p.payment_id, 'invoice', p.id || ':return' from payment_dispute p where p.is_returned) e
        on e.payment_id = y.id
      where not exists (select from document o where o.kind = e.kind and o.subject = e.subject)
      union all
      select 'payment ' || y.id, 'no invoice, although earlier payments have one'
      from payment y
      where y.state = 'paid' and not exists (select from document d where d.kind = 'invoice' and d.subject = y.id)
        and y.paid_at > (select min(d.issued_at) from document d join payment e on e.id = d.subject and d.kind = 'invoice')`,
  },
  {
    name: 'document_numbers_have_no_gap',
    over: sql`document_number`,
    offending: sql`
      select coalesce(n.series, d.series) || '-' || coalesce(n.year, d.year) as subject,
             format('the last number is %s, there are %s documents up to %s', n.last, d.count, d.max) as detail
      from document_number n
      full join (select series, year, count(*) as count, max(sequence) as max from document group by 1, 2) d
        on d.series = n.series and d.year = n.year
      where n.last is distinct from d.count or n.last is distinct from d.max`,
  },
  {
    name: 'corrections_take_no_more_than_their_document',
    over: sql`(select from document where corrects is not null)`,
    offending: sql`
      select 'document ' || d.number as subject,
             format('%s and tax %s, taken back %s and tax %s', d.amount_nano, d.tax_nano, c.amount, c.tax) as detail
      from document d
      join (select c.corrects, sum(c.amount_nano - coalesce(b.amount_nano, 0)) as amount,
                   sum(c.tax_nano - coalesce(b.tax_nano, 0)) as tax
            from document c
            left join (select corrects, sum(amount_nano) as amount_nano, sum(tax_nano) as tax_nano
                       from document where corrects is not null group by 1) b on b.corrects = c.number
            where c.kind = 'credit_note' group by 1) c on c.corrects = d.number
      where c.amount > d.amount_nano or c.tax > d.tax_nano`,
  },
]
