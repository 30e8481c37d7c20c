/** Statements on an unresponsive database time out, and the error claims no more than is known. */
import { sql } from 'kysely'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../base/instant.ts'
import { testDatabase } from '../../../test/harness/database.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { openDatabase, transact, type Database } from './database.ts'
import { DatabaseSilent } from './silence-watch.ts'

let testDb: Awaited<ReturnType<typeof testDatabase>>
let database: Database
/** A separate connection, which always works. */
let other: Database

beforeEach(async () => {
  testDb = await testDatabase()
  database = openDatabase({ url: testDb.url, clock: systemClock, poolSize: 2 })
  other = openDatabase({ url: testDb.url, clock: systemClock, poolSize: 1 })
  await sql`create table seen (what text)`.execute(other.db)
})
afterEach(async () => {
  await database.close()
  await other.close()
  await testDb.drop()
})

const seen = async () =>
  (await sql<{ what: string }>`select what from seen`.execute(other.db)).rows.map((row) => row.what)
const note = (db: Database['db'], what: string) => sql`insert into seen values (${what})`.execute(db)

test('waits for a slow statement while heartbeats are answered, and until the first one is', async () => {
  other.silence.follow(() => 0)
  await Promise.all([database, other].map(({ db }) => sql`select pg_sleep(4)`.execute(db)))
  expect(await seen()).toEqual([])
})

test('waits for a slow statement while heartbeats are answered late, and times out once they are not', async () => {
  let answers = 1
  database.silence.follow(() => answers)
  // Far older than notifications may be, but since the last tick.
  const late = setInterval(() => (answers += 1), 900)
  const slow = sql`select pg_sleep(4)`.execute(database.db)
  await expect(slow).resolves.toBeDefined()
  clearInterval(late)
  await expect(sql`select pg_sleep(15)`.execute(database.db)).rejects.toBeInstanceOf(DatabaseSilent)
})

test('without heartbeats, times out, rolls back, and the pool recovers', async () => {
  database.silence.isAnswering = () => false
  const work = transact(database, async (tx) => {
    await note(tx.db, 'half')
    await sql`select pg_sleep(15)`.execute(tx.db)
  })
  await expect(work).rejects.toMatchObject({ isOutcomeUnknown: false })
  database.silence.isAnswering = () => true
  await transact(database, async (tx) => void (await note(tx.db, 'whole')))
  expect(await seen()).toEqual(['whole'])
})

test('times out waiting for a connection, which returns to the pool', async () => {
  const release: Array<() => void> = []
  const hold = () => database.db.connection().execute(() => new Promise<void>((resolve) => release.push(resolve)))
  const held = [hold(), hold()]
  await waitFor('both connections', () => release.length === 2)
  database.silence.isAnswering = () => false
  await expect(note(database.db, 'late')).rejects.toBeInstanceOf(DatabaseSilent)
  database.silence.isAnswering = () => true
  for (const one of release) one()
  await Promise.all(held)
  await Promise.all([note(database.db, 'a'), note(database.db, 'b')])
  expect((await seen()).toSorted()).toEqual(['a', 'b'])
})

test('reports an unconfirmed commit as unknown, because it may take effect', async () => {
  await sql`create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(6); return null; end'`.execute(
    other.db,
  )
  await sql`create constraint trigger slow after insert on seen deferrable initially deferred
    for each row execute function slow()`.execute(other.db)
  database.silence.isAnswering = () => false
  const work = transact(database, async (tx) => void (await note(tx.db, 'committed')))
  await expect(work).rejects.toMatchObject({ isOutcomeUnknown: true })
  await waitFor('the commit', async () => (await seen()).length === 1)
})
