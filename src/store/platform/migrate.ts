/**
 * Forward-only migrations: the numbered files of schema/, once each, under a lock, so that several servers may start at
 * once. A new database gets the files of schema/baseline/ instead of the migrations in schema/before-baseline/, and then
 * has the same schema and the same list of migrations as one that ran them.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import pg from 'pg'

const LOCK = 8_420_001
/** The oldest version that its makers still maintain, and that of Debian 12, which the tests use. */
const MIN_POSTGRES = 15
const INSUFFICIENT_PRIVILEGE = '42501'
/** The error names so many unknown migrations. */
const MAX_NAMED = 5
/**
 * Earlier texts of migrations that were wrong as released, by file. A database that has such a text gets the present one,
 * which must therefore be one that can run on top of the earlier. The first text of 0055 ran only as a superuser, and so
 * did the restore of a dump of its function.
 */
const correctedDigests: Readonly<Record<string, string>> = {
  '0055_order_batches.sql': '856d05bf34c11a90238bbfdea13217979b31cc0d32b4ff563fcc1678927d2582',
}

/** Returns the files that it has run. */
export async function migrate(pool: pg.Pool, schemaDir: string): Promise<string[]> {
  const client = await pool.connect()
  try {
    await refuseOldServer(client)
    await client.query('set statement_timeout = 0')
    await client.query('select pg_advisory_lock($1)', [LOCK])
    await client
      .query(
        `create table if not exists migration (name text primary key, sha256 text not null, applied_at timestamptz(3) not null default now())`,
      )
      .catch(async (error: unknown) => {
        throw await explain(client, 'Berth could not create its first table', error)
      })
    const { rows } = await client.query<{ name: string; sha256: string }>('select name, sha256 from migration')
    const steps = await planSteps(schemaDir, new Map(rows.map(({ name, sha256 }) => [name, sha256])))
    for (const step of steps) await apply(client, step)
    await client.query('reset statement_timeout')
    await client.query('select pg_advisory_unlock($1)', [LOCK])
    client.release()
    return steps.flatMap(({ files }) => files.map(({ file }) => file))
  } catch (error) {
    // This ends the session, and with it the lock and the settings.
    client.release(true)
    throw error
  }
}

interface SchemaFile {
  /** The path in schema/. */
  readonly file: string
  readonly name: string
  readonly digest: string
  readonly text: string
}

/** One transaction: it runs the files and records the migrations. */
interface Step {
  readonly files: readonly SchemaFile[]
  readonly migrations: readonly SchemaFile[]
}

async function planSteps(schemaDir: string, appliedDigests: ReadonlyMap<string, string>): Promise<Step[]> {
  const [older, later] = [await readFiles(schemaDir, 'before-baseline'), await readFiles(schemaDir, '.')]
  const migrations = [...older, ...later]
  const names = migrations.map(({ name }) => name)
  refuseNewerSchema([...appliedDigests.keys()], names)
  if (appliedDigests.size === 0) {
    // All files go in one commit: each commit waits for the disk. An upgrade keeps what it has finished.
    const baseline = await readFiles(schemaDir, 'baseline')
    return [{ files: [...(baseline.length > 0 ? baseline : older), ...later], migrations }]
  }
  const missingMigrations = migrations.filter(({ file, name, digest }) => {
    const before = appliedDigests.get(name)
    if (before !== undefined && before !== digest && before !== correctedDigests[name])
      throw new Error(`schema/${file} was changed after it was applied to this database`)
    return before !== digest
  })
  return missingMigrations.map((one) => ({ files: [one], migrations: [one] }))
}

/** Reads files in the order of their names; none if there is no such folder. */
async function readFiles(schemaDir: string, folder: string): Promise<SchemaFile[]> {
  const entries = await readdir(path.join(schemaDir, folder)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' && folder !== '.') return []
    throw error
  })
  const names = entries.filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name) => {
      const file = path.posix.join(folder, name)
      const text = await readFile(path.join(schemaDir, file), 'utf8')
      return { file, name, text, digest: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

async function apply(client: pg.PoolClient, { files, migrations }: Step): Promise<void> {
  await client.query('begin')
  for (const { file, text } of files) {
    try {
      await client.query(text)
    } catch (error) {
      await client.query('rollback')
      throw await explain(client, `The migration schema/${file} failed`, error)
    }
  }
  await client.query(
    `insert into migration (name, sha256) select * from unnest($1::text[], $2::text[])
     on conflict (name) do update set sha256 = excluded.sha256, applied_at = excluded.applied_at`,
    [migrations.map(({ name }) => name), migrations.map(({ digest }) => digest)],
  )
  await client.query('commit')
}

/** Says what failed and what to do: an operator sees nothing else, because the server does not start. */
async function explain(client: pg.PoolClient, what: string, error: unknown): Promise<Error> {
  if (!(error instanceof pg.DatabaseError)) return new Error(`${what}: ${String(error)}`, { cause: error })
  const advice = error.code === INSUFFICIENT_PRIVILEGE ? await ownershipAdvice(client) : UNCHANGED
  return new Error(`${what}: ${error.message} (SQLSTATE ${error.code ?? 'unknown'}). ${advice}`, { cause: error })
}

const UNCHANGED =
  'Nothing of it was kept, and the version that ran before still works with this database. Remove the cause and start again.'

async function ownershipAdvice(client: pg.PoolClient): Promise<string> {
  const { rows } = await client.query<{ role: string; database: string }>(
    'select quote_ident(current_user) as role, quote_ident(current_database()) as database',
  )
  const { role = 'berth', database = 'berth' } = rows[0] ?? {}
  return `The role ${role} must own the database and everything that Berth has created in it; it needs no superuser rights. As a superuser, in that database: alter database ${database} owner to ${role}; and, if another role ran Berth before: reassign owned by <that role> to ${role}. Then start again.`
}

/** A newer server has changed this database in ways that this one does not know, so its writes could break invariants. */
function refuseNewerSchema(appliedNames: readonly string[], knownNames: readonly string[]): void {
  const unknown = appliedNames.filter((name) => !knownNames.includes(name)).sort()
  if (unknown.length === 0) return
  const list = unknown.slice(0, MAX_NAMED).join(', ') + (unknown.length > MAX_NAMED ? ', …' : '')
  throw new Error(
    `This database was upgraded by a newer Berth (unknown migrations: ${list}). Start that version or a later one, or restore the backup from before the upgrade.`,
  )
}

async function refuseOldServer(client: pg.PoolClient): Promise<void> {
  const { rows } = await client.query<{ version: string }>(`select current_setting('server_version_num') as version`)
  const major = Math.floor(Number.parseInt(rows[0]?.version ?? '0', 10) / 10_000)
  if (major < MIN_POSTGRES)
    throw new Error(
      `PostgreSQL ${MIN_POSTGRES} or newer is needed; this server is ${major}. Upgrade it, or point DATABASE_URL to a newer one.`,
    )
}
