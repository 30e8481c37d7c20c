/** Followers of all accounts miss no event, see none twice, and are not blocked for good by a stuck writer. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import { startWebhookTest, type WebhookTest } from '../../../test/harness/webhook.ts'
import type { Actor } from '../../app/app.ts'
import { listAllEvents, listAllEventsAfter, newestEventId } from './all-events.ts'
import { writeEvents, type Db, type Tx } from '../platform/database.ts'

let house: WebhookTest
let db: Db
let early: Actor
let late: Actor

beforeAll(async () => {
  house = await startWebhookTest()
  db = house.database.db
  early = await house.account()
  late = await house.account()
})
afterAll(() => house.close())

/** Writes an event, and commits or rolls back on request. */
async function writeSlowly({ accountId }: Actor): Promise<(end: 'commit' | 'roll back') => Promise<void>> {
  let finish: (end: 'commit' | 'roll back') => void = () => {}
  const finished = new Promise<'commit' | 'roll back'>((resolve) => (finish = resolve))
  let wrote = (): void => {}
  const isWritten = new Promise<void>((resolve) => (wrote = resolve))
  const work = db.transaction().execute(async (inner) => {
    const subject = { kind: 'rental', id: '17' } as const
    const event = { accountId, type: 'rental.running', subject, data: { slow: true } } as const
    const tx: Tx = { db: inner, clock: house.clock, events: [event], wake: new Set() }
    await writeEvents(tx)
    wrote()
    if ((await finished) === 'roll back') throw new Error('rolled back')
  })
  const ended = work.catch((error: unknown) => {
    if (!(error instanceof Error && error.message === 'rolled back')) throw error
  })
  await isWritten
  return (end) => {
    finish(end)
    return ended
  }
}

/** Writes an event, so that the next id follows it directly, even after a rollback. */
async function begin(): Promise<bigint> {
  await house.emit(early)
  const newest = await newestEventId(db)
  if (newest === undefined) throw new Error('a writer is still active')
  return newest
}

async function accountsAfter(id: bigint): Promise<string[]> {
  return (await listAllEventsAfter(db, id, 100)).map((event) => event.accountId)
}

test('holds back events above a gap that may still be filled, and returns those below it', async () => {
  const start = await begin()
  await house.emit(late)
  const end = await writeSlowly(early)
  await house.emit(late)
  const [after, newest] = await Promise.all([accountsAfter(start), newestEventId(db)])
  expect(after).toEqual([late.accountId])
  expect(newest).toBeUndefined()

  await end('commit')
  expect(await accountsAfter(start)).toEqual([late.accountId, early.accountId, late.accountId])
  const events = await listAllEventsAfter(db, start, 100)
  expect(events.map((event) => BigInt(event.id) - start)).toEqual([1n, 2n, 3n])
  expect(await newestEventId(db)).toBe(start + 3n)
})

test('a waiting reader continues exactly when the writer ends', async () => {
  const start = await begin()
  const end = await writeSlowly(early)
  await house.emit(late)
  const reading = accountsAfter(start)
  await end('commit')
  expect(await reading).toEqual([early.accountId, late.accountId])
})

test('skips a rolled-back id, also while others write', async () => {
  const start = await begin()
  const end = await writeSlowly(early)
  await house.emit(late)
  await end('roll back')
  await house.emit(late)
  expect(await accountsAfter(start)).toEqual([late.accountId, late.accountId])

  // There is always a writer. The reader does not wait for those that start after it.
  let endLast = await writeSlowly(early)
  let isRead = false
  const reading = accountsAfter(start).finally(() => (isRead = true))
  let turn = 0
  await waitFor('the reader to continue', async () => {
    const next = await writeSlowly((turn += 1) % 2 === 0 ? early : late)
    await endLast('roll back')
    endLast = next
    return isRead
  })
  expect(await reading).toEqual([late.accountId, late.accountId])
  await endLast('roll back')
})

test('pages respect the limit and continue where the previous one ended', async () => {
  const start = await begin()
  const end = await writeSlowly(early)
  await house.emit(late, 3)
  await end('commit')
  const first = await listAllEventsAfter(db, start, 2)
  const second = await listAllEventsAfter(db, start + 2n, 2)
  expect([...first, ...second].map((event) => BigInt(event.id) - start)).toEqual([1n, 2n, 3n, 4n])
  const newestFirst = await listAllEvents(db, { upTo: start + 3n, limit: 2 })
  expect(newestFirst.map((event) => BigInt(event.id) - start)).toEqual([3n, 2n])
  const ofOne = await listAllEvents(db, { upTo: start + 4n, accountId: early.accountId, limit: 1 })
  expect(ofOne).toMatchObject([{ accountId: early.accountId, id: (start + 1n).toString() }])
})
