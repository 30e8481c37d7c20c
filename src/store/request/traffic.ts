/** Recent inference traffic, summed over the request log. Rows are found by age, through the index. */
import { sql } from 'kysely'
import type { Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import { at, type Db } from '../platform/database.ts'

export interface Traffic {
  readonly requests: number
  readonly failed: number
  readonly inputTokens: bigint
  readonly outputTokens: bigint
  readonly cost: NanoUsd
}

export interface TrafficMinute extends Traffic {
  readonly minute: Instant
}

export interface TrafficModel extends Traffic {
  readonly model: string
  /** The 50th and the 95th percentile. null: there were no responses. */
  readonly totalMs: readonly [number, number] | null
  readonly firstByteMs: readonly [number, number] | null
}

interface Span {
  readonly from: Instant
  readonly until: Instant
}

/** Returns only minutes with a request, oldest first. */
export async function sumTrafficByMinute(db: Db, span: Span): Promise<TrafficMinute[]> {
  const { rows } = await sql<TrafficMinute>`
    select date_trunc('minute', at) as minute, ${sums}
    from request where ${isWithin(span)}
    group by 1 order by 1`.execute(db)
  return rows
}

/** Returns the busiest first. */
export async function sumTrafficByModel(db: Db, span: Span, limit: number): Promise<TrafficModel[]> {
  const { rows } = await sql<TrafficModel>`
    select model, ${sums},
      percentile_disc(array[0.5, 0.95]) within group (order by total_ms)
        filter (where outcome = 'answered') as "totalMs",
      percentile_disc(array[0.5, 0.95]) within group (order by first_byte_ms)
        filter (where outcome = 'answered' and first_byte_ms is not null) as "firstByteMs"
    from request where ${isWithin(span)}
    group by model order by requests desc, model
    limit ${limit}`.execute(db)
  return rows
}

function isWithin({ from, until }: Span) {
  return sql`at >= ${at(from)} and at < ${at(until)}`
}

/** Units are tokens, characters, milliseconds or pixels, depending on the kind of model. */
const hasTokens = sql`operation not in ('image', 'speech', 'transcription')`

const sums = sql`
  count(*)::integer as requests,
  (count(*) filter (where outcome in ('failed', 'broken')))::integer as failed,
  coalesce(sum(input_units) filter (where ${hasTokens}), 0)::bigint as "inputTokens",
  coalesce(sum(output_units) filter (where ${hasTokens}), 0)::bigint as "outputTokens",
  sum(cost_nano)::bigint as cost`
