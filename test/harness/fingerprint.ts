/** Row count and digest of each database table: equal fingerprints mean that nothing was changed. */
import { createHash } from 'node:crypto'
import type { App } from '../../src/app/app.ts'

export type Fingerprint = Readonly<Record<string, string>>

/** Counters, scheduling state, and what a gateway reports by itself whenever it learns of a model. */
const left = new Set(['public.rate_window', 'public.loop', 'public.gateway_load'])

export async function fingerprint(app: App): Promise<Fingerprint> {
  const { pool } = app.database
  const tables = await pool.query<{ name: string }>(
    `select schemaname || '.' || tablename as name from pg_tables where schemaname in ('public', 'mock') order by 1`,
  )
  const names = tables.rows.map((row) => row.name).filter((name) => !left.has(name))
  // A key's last use is written now and then, even for rejected calls; seen_at is a heartbeat.
  const each = names.map(
    (
      name,
    ) => `select '${name}' as name, count(*) || ' rows, ' || md5(coalesce(string_agg(line, '' order by line), '')) as held
      from (select (to_jsonb(t) - 'last_used_at' - 'seen_at')::text as line from ${name} t) lines`,
  )
  const text = each.join(' union all ')
  // Prepared under its digest: planning so many tables takes longer than reading them.
  const name = `fingerprint_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
  const found = await pool.query<{ name: string; held: string }>({ name, text })
  return Object.fromEntries(found.rows.map((row) => [row.name, row.held]))
}
