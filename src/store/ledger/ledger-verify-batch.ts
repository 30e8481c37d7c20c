/** Ledger checks of batches; see ledger-verify.ts. */
import { sql } from 'kysely'
import type { LedgerCheck } from './ledger-check.ts'

/** Older requests exist only in sums, so batches with such requests are left out. */
const batches = sql`(
  select b.* from batch b where b.created_at >= (select before from request_thinned))`

export const batchChecks: readonly LedgerCheck[] = [
  {
    name: 'batch_cost_is_its_requests',
    over: batches,
    offending: sql`
      select b.id as subject, format('recorded %s, requests %s', b.cost_nano, coalesce(r.cost, 0)) as detail
      from ${batches} b
      left join (select batch_id, sum(cost_nano) as cost from request where batch_id is not null group by 1) r
        on r.batch_id = b.id
      where b.cost_nano is distinct from coalesce(r.cost, 0)`,
  },
  {
    name: 'batch_lines_are_its_requests',
    over: batches,
    offending: sql`
      select b.id as subject, format('%s lines have an answer, and %s requests', b.completed, coalesce(r.requests, 0)) as detail
      from ${batches} b
      left join (select batch_id, count(*) as requests from request where batch_id is not null group by 1) r
        on r.batch_id = b.id
      where b.completed is distinct from coalesce(r.requests, 0)`,
  },
]
