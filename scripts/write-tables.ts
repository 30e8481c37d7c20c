/** Writes src/store/platform/tables.ts. `npm run tables` after a change of schema/; a test fails when it is stale. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { startEmbeddedPostgres } from '../src/server/data/embedded-postgres.ts'
import { migrate } from '../src/store/platform/migrate.ts'
import { describeTables } from './tables.ts'

const root = new URL('..', import.meta.url)
const dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-tables-'))
const postgres = await startEmbeddedPostgres({ dataDir, log: () => {}, settings: { fsync: 'off' } })
const pool = new pg.Pool({ connectionString: postgres.url, max: 1 })
// `end` does not wait until the connection has closed, so the stop of the database may still break it.
pool.on('error', () => {})
try {
  await migrate(pool, fileURLToPath(new URL('schema', root)))
  const text = await describeTables(pool)
  await writeFile(new URL('src/store/platform/tables.ts', root), text)
  console.log(`src/store/platform/tables.ts: ${text.split('\n').length - 1} lines`)
} finally {
  await pool.end()
  await postgres.stop()
  await rm(dataDir, { recursive: true })
}
