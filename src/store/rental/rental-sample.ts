/**
 * Samples and summaries of what rentals use. Written in batches, one statement for all rentals of a server; read per
 * rental. Partitions are made and dropped by the retention loop (schema/baseline/19_metric.sql).
 */
import { sql } from 'kysely'
import { addMs, toDate, type Instant } from '../../base/instant.ts'
import type { HostMetrics } from '../../contract/agent.ts'
import {
  floorTo,
  pointOf,
  SAMPLES_SPAN_MS,
  SUMMARIES_SPAN_MS,
  summarize,
  type NodePoints,
  type Point,
  type Sample,
} from '../../domain/sample.ts'
import { at, transact, type Database, type Db } from '../platform/database.ts'
import { packSamples, packSummaries, unpackSamples, unpackSummaries } from './sample-code.ts'

/** One minute of one machine of a rental. */
export interface Minute {
  readonly rentalId: number
  readonly node: number
  readonly at: Instant
  readonly samples: readonly Sample[]
}

export interface HeardMetrics {
  readonly hostId: string
  /** null: a host that the server manages over SSH. */
  readonly session: string | null
  readonly metrics: HostMetrics
}

/** A machine of a rental on one of the hosts. */
export interface MeasuredNode {
  readonly hostId: string
  readonly workloadId: string
  readonly rentalId: number
  readonly node: number
  readonly gpuIndexes: readonly number[]
}

/**
 * Saves the latest metrics of many hosts and returns the machines of rentals on them: only these may be reported by
 * their hosts. Messages of a session that another one has replaced are dropped.
 */
export async function saveHostMetrics(db: Db, reports: readonly HeardMetrics[], now: Instant): Promise<MeasuredNode[]> {
  if (reports.length === 0) return []
  const metricTexts = reports.map(({ metrics }) => JSON.stringify({ ...metrics, lastLogs: undefined }))
  const { rows } = await sql<MeasuredNode>`
    with heard as (
      select * from unnest(${reports.map((one) => one.hostId)}::text[], ${reports.map((one) => one.session)}::uuid[],
        ${metricTexts}::jsonb[]) as h (id, session, metrics)
    ), saved as (
      update host set metrics = heard.metrics, metrics_at = ${toDate(now)}
      from heard where host.id = heard.id and (heard.session is null or host.session = heard.session)
      returning host.id
    )
    select n.host_id as "hostId", n.workload_id as "workloadId", r.id as "rentalId", n.node_index as node,
      n.gpu_indexes as "gpuIndexes"
    from saved join workload_node n on n.host_id = saved.id
    join workload w on w.id = n.workload_id and w.spec is not null
    join rental r on r.id = substring(w.tag from '-(\\d{1,9})-[0-9a-f]+$')::integer
      and r.external_id = w.id and r.driver = w.driver
    where r.status = 'Running'`.execute(db)
  return rows
}

export async function insertMinutes(db: Db, minutes: readonly Minute[]): Promise<void> {
  if (minutes.length === 0) return
  await sql`
    insert into rental_sample (rental_id, node, at, data)
    select * from unnest(${minutes.map((one) => one.rentalId)}::integer[], ${minutes.map((one) => one.node)}::smallint[],
      ${minutes.map((one) => toDate(one.at))}::timestamptz[],
      ${minutes.map((one) => packSamples(one.at, one.samples))}::bytea[])`.execute(db)
}

/** Reads the minutes of each rental and machine, in the order of time. */
export async function readMinutes(db: Db, rentalIds: readonly number[], from: Instant, to: Instant): Promise<Minute[]> {
  if (rentalIds.length === 0) return []
  const rows = await db
    .selectFrom('rental_sample')
    .selectAll()
    .where('rental_id', 'in', rentalIds)
    .where('at', '>=', at(floorTo(from, SAMPLES_SPAN_MS)))
    .where('at', '<', at(to))
    .orderBy('rental_id')
    .orderBy('at')
    .execute()
  return rows.map(minuteOf)
}

interface MinuteRow {
  readonly rental_id: number
  readonly node: number
  readonly at: Instant
  readonly data: Buffer
}

function minuteOf(row: MinuteRow): Minute {
  return { rentalId: row.rental_id, node: row.node, at: row.at, samples: unpackSamples(row.at, row.data) }
}

/** Reads the points of a rental: samples if `fine`, otherwise summaries, with samples for hours not summarized yet. */
export async function readPoints(
  db: Db,
  rentalId: number,
  range: { readonly from: Instant; readonly to: Instant; readonly fine: boolean },
  unsavedMinutes: readonly Minute[],
): Promise<NodePoints[]> {
  const { from, to, fine } = range
  const until = fine ? null : await readSummarizedUntil(db)
  const coarseTo = until === null || until < from ? from : until
  const summaries = fine ? [] : await readSummaries(db, rentalId, from, coarseTo)
  const savedMinutes = await readMinutes(db, [rentalId], fine ? from : coarseTo, to)
  const nodes = new Map<number, Point[]>()
  const add = (node: number, points: readonly Point[]): void => {
    const nodePoints = nodes.get(node) ?? []
    nodes.set(node, nodePoints)
    nodePoints.push(...points)
  }
  for (const { node, points } of summaries) add(node, points)
  for (const { node, samples } of [...savedMinutes, ...unsavedMinutes]) add(node, samples.map(pointOf))
  return [...nodes].toSorted(([a], [b]) => a - b).map(([node, points]) => ({ node, points }))
}

async function readSummaries(db: Db, rentalId: number, from: Instant, to: Instant): Promise<NodePoints[]> {
  const rows = await db
    .selectFrom('rental_summary')
    .select(['node', 'at', 'data'])
    .where('rental_id', '=', rentalId)
    .where('at', '>=', at(floorTo(from, SUMMARIES_SPAN_MS)))
    .where('at', '<', at(to))
    .orderBy('at')
    .execute()
  return rows.map(({ node, at, data }) => ({ node, points: unpackSummaries(at, data) }))
}

async function readSummarizedUntil(db: Db): Promise<Instant | null> {
  return (
    (await db.selectFrom('metric_progress').select('summarized_until').executeTakeFirst())?.summarized_until ?? null
  )
}

/** Finds the next hour to summarize: it has samples and has ended. */
export async function findDueHour(
  db: Db,
  now: Instant,
  limit: { readonly keptMs: number; readonly settleMs: number },
): Promise<Instant | undefined> {
  const summarizedUntil = await readSummarizedUntil(db)
  const oldest = floorTo(addMs(now, -limit.keptMs), SUMMARIES_SPAN_MS)
  const from = summarizedUntil === null || summarizedUntil < oldest ? oldest : summarizedUntil
  const last = addMs(floorTo(addMs(now, -limit.settleMs), SUMMARIES_SPAN_MS), -SUMMARIES_SPAN_MS)
  const { rows } = await sql<{ hour: Instant }>`
    select hour from generate_series(${toDate(from)}::timestamptz, ${toDate(last)}::timestamptz, interval '1 hour') hour
    where exists (select 1 from rental_sample s where s.at >= hour and s.at < hour + interval '1 hour')
    order by hour limit 1`.execute(db)
  return rows[0]?.hour
}

/** Summarizes the next rentals of an hour. Returns the id of the last one; undefined: all are done. */
export async function summarizeSome(
  database: Database,
  hour: Instant,
  after: number,
  rows: number,
): Promise<number | undefined> {
  const { db } = database
  const batch = await sql<MinuteRow>`
    select rental_id, node, at, data from rental_sample
    where at >= ${toDate(hour)} and at < ${toDate(addMs(hour, SUMMARIES_SPAN_MS))} and rental_id > ${after}
    order by rental_id, at limit ${rows}`.execute(db)
  const last = batch.rows.at(-1)?.rental_id
  if (last === undefined) return undefined
  // The last rental may continue in the next batch, unless it is alone and its machines fill this one.
  const isWhole = batch.rows.length < rows || batch.rows[0]?.rental_id === last
  const wholeRows = isWhole ? batch.rows : batch.rows.filter((row) => row.rental_id !== last)
  const groups = new Map<string, Minute[]>()
  for (const row of wholeRows) {
    const key = `${row.rental_id} ${row.node}`
    const group = groups.get(key) ?? []
    groups.set(key, group)
    group.push(minuteOf(row))
  }
  const summaries: Array<{ rentalId: number; node: number; data: Buffer }> = []
  for (const minutes of groups.values()) {
    const points = summarize(minutes.flatMap(({ samples }) => samples))
    const [first] = minutes
    summaries.push({ rentalId: first?.rentalId ?? 0, node: first?.node ?? 0, data: packSummaries(hour, points) })
    // Each batch takes about 3 ms of this thread; requests are answered in between.
    await new Promise((resolve) => setImmediate(resolve))
  }
  await sql`
    insert into rental_summary (rental_id, node, at, data)
    select rental_id, node, ${toDate(hour)}, data
    from unnest(${summaries.map((one) => one.rentalId)}::integer[], ${summaries.map((one) => one.node)}::smallint[],
      ${summaries.map((one) => one.data)}::bytea[]) as s (rental_id, node, data)
    on conflict (rental_id, node, at) do update set data = excluded.data`.execute(db)
  return wholeRows.at(-1)?.rental_id
}

export async function finishHour(db: Db, hour: Instant): Promise<void> {
  const until = toDate(addMs(hour, SUMMARIES_SPAN_MS))
  await sql`update metric_progress set summarized_until = greatest(summarized_until, ${until})`.execute(db)
}

/** Returns the number of partitions that were dropped. */
export async function keepMetricPartitions(
  database: Database,
  now: Instant,
  retention: { readonly samplesFrom: Instant; readonly summariesFrom: Instant },
): Promise<number> {
  await sql`select make_metric_partitions(${toDate(now)})`.execute(database.db)
  const drop = (table: string, before: Instant): Promise<number> =>
    transact(database, async ({ db }) => {
      const { rows } = await sql<{
        n: number
      }>`select drop_metric_partitions(${table}, ${toDate(before)}) as n`.execute(db)
      return rows[0]?.n ?? 0
    })
  return (await drop('rental_sample', retention.samplesFrom)) + (await drop('rental_summary', retention.summariesFrom))
}
