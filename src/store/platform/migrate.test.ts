import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { testDatabase, type TestDatabase } from '../../../test/harness/database.ts'
import { removeFolder } from '../../../test/harness/leftover.ts'
import { olderSchema } from '../../../test/harness/older-schema.ts'
import { migrate } from './migrate.ts'

let database: TestDatabase
let pool: pg.Pool
let schema: string
beforeEach(async () => {
  database = await testDatabase()
  pool = new pg.Pool({ connectionString: database.url, max: 2 })
  // A connection released by migrate() may still be closing when the database is dropped.
  pool.on('error', () => {})
  schema = await mkdtemp(path.join(os.tmpdir(), 'berth-schema-'))
  await cp('schema', schema, { recursive: true })
})
afterEach(async () => {
  await pool.end()
  await database.drop()
  await removeFolder(schema)
})

it('applies a new file once', async () => {
  await writeFile(path.join(schema, '9000_newer.sql'), 'create table newer (id integer)')
  expect(await migrate(pool, schema)).toEqual(['9000_newer.sql'])
  expect(await migrate(pool, schema)).toEqual([])
})

it('applies all files to a new database or none, and to an older one those before the failure', async () => {
  await writeFile(path.join(schema, '9000_newer.sql'), 'create table newer (id integer)')
  await writeFile(path.join(schema, '9001_broken.sql'), 'create table newer (id integer)')
  const has = async (table: string): Promise<boolean> =>
    (await pool.query<{ has: boolean }>('select to_regclass($1) is not null as has', [table])).rows[0]?.has === true
  await expect(migrate(pool, schema)).rejects.toThrow('already exists')
  expect([await has('account'), await has('newer')]).toEqual([true, true])
  await pool.query('drop schema public cascade; drop schema mock cascade; create schema public')
  await expect(migrate(pool, schema)).rejects.toThrow('already exists')
  expect([await has('account'), await has('newer')]).toEqual([false, false])
})

it('renames the reason of earlier rental.stuck events', async () => {
  await pool.query(`insert into account (id, name, created_at) values ('acme', 'Acme', now())`)
  await pool.query(`insert into event (account_id, at, type, subject_kind, subject_id, data) values
    ('acme', now(), 'rental.stuck', 'rental', '1', '{"rentalId": 1, "reason": "engine_does_not_let_go"}')`)
  await pool.query(`delete from migration where name = '0020_teardown_stuck.sql'`)
  expect(await migrate(pool, schema)).toEqual(['before-baseline/0020_teardown_stuck.sql'])
  const { rows } = await pool.query<{ data: object }>('select data from event')
  expect(rows).toEqual([{ data: { rentalId: 1, reason: 'teardown_stuck' } }])
})

it('adds up the ledger of an older version by day', async () => {
  const older = await olderSchema('0025')
  await pool.query('drop schema public cascade; drop schema mock cascade; create schema public')
  await migrate(pool, older)
  await pool.query(`insert into account (id, name, created_at) values ('acme', 'Acme', now())`)
  const ids = `ledger_account_id('acme', 'available')`
  for (const [key, kind, amount] of [
    ['a', 'purchase', 500],
    ['b', 'purchase', 70],
    ['c', 'credit', 3],
  ] as const) {
    await pool.query(`select ledger_post('${key}', '${kind}', '2026-10-30T23:59:59Z', 'acme', 'x', null, null, null, null,
      null, null, array[ledger_account_id(null, 'funding')], array[${ids}], array[${amount}]::bigint[])`)
  }
  await pool.query(`select ledger_hold('h', 'hold', '2026-10-31T00:00:00Z', 'acme', 100, 'x', null)`)
  await pool.query(
    `select ledger_charge('d', 'hold', '2026-10-31T00:00:00Z', 40, 'x', null, 0, null, null, null, 'tiny')`,
  )
  expect(await migrate(pool, schema)).toContain('before-baseline/0025_cost_and_notifications.sql')
  await pool.query(
    `select ledger_charge('e', 'hold', '2026-10-31T01:00:00Z', 2, 'x', null, 0, null, null, null, 'tiny')`,
  )
  const days = await pool.query(`select day::text, kind, service, model, amount_nano::integer as amount, postings
    from ledger_day order by day, kind`)
  expect(days.rows).toEqual([
    { day: '2026-10-30', kind: 'credit', service: 'other', model: '', amount: 3, postings: 1 },
    { day: '2026-10-30', kind: 'purchase', service: 'other', model: '', amount: 570, postings: 2 },
    { day: '2026-10-31', kind: 'charge', service: 'models', model: 'tiny', amount: -42, postings: 2 },
  ])
  const spend = await pool.query(`select month::text, spent_nano::integer as spent from account_spend`)
  expect(spend.rows).toEqual([{ month: '2026-10-01', spent: 42 }])
  await removeFolder(older)
})

it('refuses a database that a newer version has migrated, and changes nothing in it', async () => {
  const older = await mkdtemp(path.join(os.tmpdir(), 'berth-schema-'))
  await cp(schema, older, { recursive: true })
  await writeFile(path.join(schema, '9000_newer.sql'), 'create table newer (id integer)')
  await writeFile(path.join(schema, '9001_newest.sql'), 'create table newest (id integer)')
  await migrate(pool, schema)
  // The older version has a file of its own that the newer one lacks: it must not be applied either.
  await writeFile(path.join(older, '8999_side.sql'), 'create table side (id integer)')
  await expect(migrate(pool, older)).rejects.toThrow(/9000_newer\.sql, 9001_newest\.sql/)
  const { rows } = await pool.query<{ side: string | null }>(`select to_regclass('side')::text as side`)
  expect(rows).toEqual([{ side: null }])
  await rm(older, { recursive: true })
})

it('refuses a file that was changed after it was applied', async () => {
  await writeFile(path.join(schema, 'before-baseline', '0001_identity.sql'), 'select 1')
  await expect(migrate(pool, schema)).rejects.toThrow('schema/before-baseline/0001_identity.sql')
})

it('releases its lock after a refusal, so that the right version can start', async () => {
  const older = await mkdtemp(path.join(os.tmpdir(), 'berth-schema-'))
  await expect(migrate(pool, older)).rejects.toThrow('0001_identity.sql')
  expect(await migrate(pool, schema)).toEqual([])
  await rm(older, { recursive: true })
})
