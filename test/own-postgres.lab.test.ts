/**
 * Berth on a PostgreSQL that an operator runs: Debian's, with the role and the database of docs/operator/servers.md. The whole
 * API runs on it too: see `DATABASE_SUITES` in scripts/test.mjs.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cp, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../src/server/data/embedded-postgres.ts'
import { migrate } from '../src/store/platform/migrate.ts'
import { debianPostgres, whyNoDebianPostgres } from './harness/debian-postgres.ts'
import { succeed } from './harness/journey.ts'
import { removeFolder } from './harness/leftover.ts'
import { olderSchema } from './harness/older-schema.ts'
import { startServerProcess } from './lab/process.ts'
import { caller, testSshKey } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('postgres', 'build')

const run = promisify(execFile)
const SECRET_KEY = 'the secret key of the servers on one database'
const why = whyNoDebianPostgres()

describe.skipIf(why !== undefined)(`a PostgreSQL of Debian${why === undefined ? '' : ` (${why})`}`, () => {
  let home: string
  let postgres: EmbeddedPostgres
  const cleanUp: Array<() => Promise<unknown>> = []
  beforeAll(async () => {
    home = await mkdtemp(path.join(os.tmpdir(), 'berth-own-postgres-'))
    postgres = await startEmbeddedPostgres({ dataDir: home, log: () => {}, bin: debianPostgres() })
    await asSuperuser('create role cloud login')
  })
  afterEach(async () => {
    for (const step of cleanUp.splice(0).toReversed()) await step()
  })
  afterAll(async () => {
    await postgres?.stop()
    await removeFolder(home)
  })

  /** Connects as `cloud` unless told otherwise. */
  function urlOf(database: string, role = 'cloud'): string {
    return postgres.url.replace('//berth@', `//${role}@`).replace('/berth?', `/${database}?`)
  }
  function poolOf(database: string, role?: string): pg.Pool {
    const pool = new pg.Pool({ connectionString: urlOf(database, role), max: 2 })
    pool.on('error', () => {})
    cleanUp.push(() => pool.end())
    return pool
  }
  async function asSuperuser(...statements: string[]): Promise<void> {
    const client = new pg.Client({ connectionString: postgres.url })
    await client.connect()
    for (const statement of statements) await client.query(statement)
    await client.end()
  }
  async function schemaWith(files: Readonly<Record<string, string>>): Promise<string> {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-schema-'))
    cleanUp.push(() => removeFolder(folder))
    await cp('schema', folder, { recursive: true })
    for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder, name), text)
    return folder
  }
  async function start(database: string, dataDir: string) {
    const server = await startServerProcess({
      DATABASE_URL: urlOf(database),
      BERTH_DATA_DIR: dataDir,
      BERTH_SECRET_KEY: SECRET_KEY,
      BERTH_DRIVERS: 'mock',
      BERTH_MOCK_BOOT_MS: '0',
      BERTH_MOCK_DESTROY_MS: '0',
    })
    cleanUp.push(() => server.killTree())
    const operatorKey = (await readFile(path.join(dataDir, 'operator.key'), 'utf8')).trim()
    return { ...server, operator: caller(server.url, operatorKey) }
  }

  test('serves, is dumped and restored with a role that only owns its database (issue 31, B)', async () => {
    await asSuperuser('create database cloud owner cloud', 'create database restored owner cloud')
    const dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-server-'))
    cleanUp.push(() => removeFolder(dataDir))
    const first = await start('cloud', dataDir)
    const made = await succeed(first.operator, 'POST', '/v2/operator/accounts', {
      name: 'Ada',
      ownerEmail: 'ada@example.test',
    })
    const credit = { amountUsd: '100', reason: 'for the test' }
    await succeed(first.operator, 'POST', `/v2/operator/accounts/${made.account.id}/credit`, credit)
    const ada = caller(first.url, made.key)
    await succeed(ada, 'POST', '/v2/ssh-keys', { name: 'mine', publicKey: testSshKey })
    const order = { cluster_name: 'mock-fra', node_name: 'mock-fra-h100pcie-01', gpu_count: 1 }
    const { instance_id: id } = await succeed(ada, 'POST', '/v1/marketplace/instances/create', order)
    const shows = async (call: typeof ada): Promise<string[]> =>
      (await succeed(call, 'GET', '/v1/marketplace/instances')).instances.map((one: { id: string }) => one.id)
    expect(await shows(ada)).toEqual([id])
    const { rows } = await poolOf('cloud').query('select rolsuper from pg_roles where rolname = current_user')
    expect(rows).toEqual([{ rolsuper: false }])

    const dump = path.join(dataDir, 'berth.dump')
    await run(path.join(debianPostgres(), 'pg_dump'), ['-Fc', urlOf('cloud'), '-f', dump])
    await first.stop()
    await run(path.join(debianPostgres(), 'pg_restore'), ['--exit-on-error', '-d', urlOf('restored'), dump])

    const second = await start('restored', dataDir)
    const again = caller(second.url, made.key)
    expect(await shows(again)).toEqual([id])
    await succeed(again, 'POST', '/v1/marketplace/instances/terminate', { id })
    await waitFor('its end', async () => (await shows(again)).length === 0)
    expect(await succeed(second.operator, 'GET', '/v2/operator/ledger/verify')).toMatchObject({
      ok: true,
      findings: [],
    })
  })

  test('loses the setting that only a superuser could give it, whoever migrated it before (issue 31, B)', async () => {
    await asSuperuser('create database older owner cloud', 'create role earlier login superuser')
    const name = '0055_order_batches.sql'
    const older = await olderSchema('0056')
    cleanUp.push(() => removeFolder(older))
    const text = await readFile(path.join(older, name), 'utf8')
    const earlier = text
      .replace(`set enable_seqscan = 'off' as`, `set enable_seqscan = 'off'\nset berth.counts_disks = 'itself' as`)
      .replaceAll(/  -- Here and not as a setting.*\n|  perform set_config\('berth.counts_disks'.*\n/g, '')
    expect(createHash('sha256').update(earlier).digest('hex')).toMatch(/^856d05bf/)
    await writeFile(path.join(older, name), earlier)
    const settings = `select proconfig::text as config from pg_proc where proname = 'place_orders'`
    const superuser = poolOf('older', 'earlier')
    await expect(migrate(poolOf('older'), older)).rejects.toThrow(/0055_order_batches.*counts_disks/)
    expect(await migrate(superuser, older)).toContain(name)
    expect((await superuser.query<{ config: string }>(settings)).rows[0]?.config).toContain('berth.counts_disks')
    // The role that owns the database takes over from the superuser, as the error advises.
    await superuser.query('reassign owned by earlier to cloud')
    const owner = poolOf('older')
    await writeFile(path.join(older, name), text)
    expect(await migrate(owner, older)).toEqual([name])
    expect((await owner.query<{ config: string }>(settings)).rows[0]?.config).not.toContain('berth.counts_disks')
    expect(await migrate(owner, 'schema')).toContain('before-baseline/0056_due_drivers.sql')
  })

  test('names the migration that failed, the cause and the remedy (issue 31, B)', async () => {
    await asSuperuser('create database broken owner cloud', 'create database foreign_one')
    const broken = await schemaWith({ '9000_broken.sql': 'create table account (id text)' })
    await migrate(poolOf('broken'), 'schema')
    await expect(migrate(poolOf('broken'), broken)).rejects.toThrow(
      /^The migration schema\/9000_broken\.sql failed: .*already exists.* Nothing of it was kept.*start again\.$/,
    )
    const forbidden = await schemaWith({ '9000_forbidden.sql': 'create role other superuser' })
    await expect(migrate(poolOf('broken'), forbidden)).rejects.toThrow(
      /^The migration schema\/9000_forbidden\.sql failed: .*alter database broken owner to cloud.*start again\.$/,
    )
    const started = startServerProcess({ DATABASE_URL: urlOf('foreign_one'), BERTH_SECRET_KEY: SECRET_KEY })
    await expect(started).rejects.toThrow(/could not create its first table.*alter database foreign_one owner to cloud/)
  })
})
