/** Ledger checks of the cost of machines and volumes at other clouds; see ledger-verify.ts. */
import { sql } from 'kysely'
import type { LedgerCheck } from './ledger-check.ts'

/** The purchase id in a posting key `purchase:<id>:<n>`. */
const purchaseId = sql`case when p.key ~ '^purchase:[0-9]+:[0-9]+$' and length(split_part(p.key, ':', 2)) < 19
  then split_part(p.key, ':', 2)::bigint end`

/** The amount that each posting of a cost moved from payables to the cost of goods. */
const costPostings = sql`(
  select p.id, ${purchaseId} as purchase_id, p.rental_id, p.volume_id, (p.at at time zone 'UTC')::date as day,
         sum(t.amount_nano) filter (where f.kind = 'payables' and e.kind = 'cost_of_goods') as amount,
         bool_and(f.kind = 'payables' and e.kind = 'cost_of_goods') as is_cost
  from posting p
  join transfer t on t.posting_id = p.id
  join ledger_account f on f.id = t.from_id
  join ledger_account e on e.id = t.to_id
  where p.kind = 'cost'
  group by p.id)`

const goodsName = sql`coalesce('rental ' || rental_id, 'volume ' || volume_id)`

export const purchaseChecks: readonly LedgerCheck[] = [
  {
    name: 'costs_are_purchases',
    over: sql`(select from posting where kind = 'cost')`,
    offending: sql`
      select 'posting ' || b.id as subject, format('purchase %s, cost %s', b.purchase_id, b.is_cost) as detail
      from ${costPostings} b left join purchase u on u.id = b.purchase_id
      where u.id is null or not b.is_cost or b.rental_id is distinct from u.rental_id
        or b.volume_id is distinct from u.volume_id`,
  },
  {
    name: 'purchase_settled_is_its_postings',
    over: sql`purchase`,
    offending: sql`
      select 'purchase ' || u.id as subject, format('settled %s, posted %s', u.settled_nano, coalesce(b.amount, 0)) as detail
      from purchase u
      left join (select purchase_id, sum(amount) as amount from ${costPostings} b group by 1) b on b.purchase_id = u.id
      where u.settled_nano <> coalesce(b.amount, 0)`,
  },
  {
    name: 'purchase_settled_to_the_millisecond',
    over: sql`purchase`,
    offending: sql`
      select 'purchase ' || u.id as subject, format('settled %s until %s, expected %s', u.settled_nano, u.settled_until, worth.nano) as detail
      from purchase u
      cross join lateral (select div(u.nano_per_hour
        * floor(extract(epoch from u.settled_until - u.started_at) * 1000), 3600000) as nano) worth
      where u.settled_nano <> worth.nano or u.ended_at <> u.settled_until`,
  },
  {
    name: 'provider_cost_is_its_postings',
    over: sql`provider_cost`,
    offending: sql`
      select format('%s %s %s', provider_account_id, day, bought) as subject,
             format('recorded %s, posted %s', coalesce(c.cost_nano, 0), coalesce(b.amount, 0)) as detail
      from (select provider_account_id, day, ${goodsName} as bought, cost_nano from provider_cost) c
      full join (select u.provider_account_id, b.day, b.bought, sum(b.amount) as amount
                 from (select *, ${goodsName} as bought from ${costPostings} p) b
                 join purchase u on u.id = b.purchase_id group by 1, 2, 3) b
        using (provider_account_id, day, bought)
      where c.cost_nano is distinct from b.amount`,
  },
]
