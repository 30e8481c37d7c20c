/** Forward-only migrations: the numbered files of schema/, once each, under a lock, so that several servers may start at once. */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import type pg from 'pg'

const LOCK = 8_420_001
const MIN_POSTGRES = 14
/** How many unknown migrations the error names. */
const MAX_NAMED = 5

export async function migrate(pool: pg.Pool, schemaDir: string): Promise<string[]> {
  const client = await pool.connect()
  try {
    await refuseOldServer(client)
    await client.query('set statement_timeout = 0')
    await client.query('select pg_advisory_lock($1)', [LOCK])
    await client.query(
      `create table if not exists migration (name text primary key, sha256 text not null, applied_at timestamptz(3) not null default now())`,
    )
    const applied = new Map<string, string>()
    for (const row of (await client.query<{ name: string; sha256: string }>('select name, sha256 from migration'))
      .rows) {
      applied.set(row.name, row.sha256)
    }
    const known = (await readdir(schemaDir)).filter((file) => file.endsWith('.sql')).sort()
    refuseNewerSchema([...applied.keys()], known)
    const missing: Migration[] = []
    for (const name of known) {
      const text = await readFile(path.join(schemaDir, name), 'utf8')
      const digest = createHash('sha256').update(text).digest('hex')
      const before = applied.get(name)
      if (before === digest) continue
      if (before !== undefined) throw new Error(`schema/${name} was changed after it was applied to this database`)
      missing.push({ name, digest, text })
    }
    // A new database gets everything in one commit: 40 of them, each with its wait for the disk, would be a tenth of the
    // first start. An upgrade keeps what it has finished.
    const steps = applied.size === 0 && missing.length > 0 ? [missing] : missing.map((one) => [one])
    for (const step of steps) await apply(client, step)
    await client.query('reset statement_timeout')
    await client.query('select pg_advisory_unlock($1)', [LOCK])
    client.release()
    return missing.map(({ name }) => name)
  } catch (error) {
    // Ends the session, and with it the lock and the settings.
    client.release(true)
    throw error
  }
}

interface Migration {
  readonly name: string
  readonly digest: string
  readonly text: string
}

/** In one transaction. */
async function apply(client: pg.PoolClient, migrations: readonly Migration[]): Promise<void> {
  await client.query('begin')
  try {
    for (const { text } of migrations) await client.query(text)
    await client.query('insert into migration (name, sha256) select * from unnest($1::text[], $2::text[])', [
      migrations.map(({ name }) => name),
      migrations.map(({ digest }) => digest),
    ])
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}

/** A newer server has changed this database in ways that this one does not know, so its writes could break invariants. */
function refuseNewerSchema(applied: readonly string[], known: readonly string[]): void {
  const unknown = applied.filter((name) => !known.includes(name)).sort()
  if (unknown.length === 0) return
  const shown = unknown.slice(0, MAX_NAMED).join(', ') + (unknown.length > MAX_NAMED ? ', …' : '')
  throw new Error(
    `This database was upgraded by a newer Berth (unknown migrations: ${shown}). Start that version or a later one, or restore the backup from before the upgrade.`,
  )
}

async function refuseOldServer(client: pg.PoolClient): Promise<void> {
  const { rows } = await client.query<{ version: string }>(`select current_setting('server_version_num') as version`)
  const major = Math.floor(Number.parseInt(rows[0]?.version ?? '0', 10) / 10_000)
  if (major < MIN_POSTGRES) throw new Error(`PostgreSQL ${MIN_POSTGRES} or newer is needed; this server is ${major}`)
}
