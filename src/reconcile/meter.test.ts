/** The meter with an unreachable engine, and with a row that cannot be settled. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS, SECOND_MS, toDate } from '../base/instant.ts'
import { costOfSpan, usd } from '../base/money.ts'
import { openAccount, openBooks, startRental, type Books } from '../../test/harness/books.ts'
import { meter } from './meter.ts'

const PRICE = usd('6')
let books: Books
beforeAll(async () => {
  books = await openBooks()
})
afterAll(() => books.close())

const pass = () => meter(books.app).run(new AbortController().signal)

/** The engine's list is good as of now. */
async function showEverything(): Promise<void> {
  const done_at = toDate(books.clock.now())
  await books.database.db
    .insertInto('loop')
    .values({ name: 'observe:mock', done_at })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ done_at }))
    .execute()
}

async function segmentOf(rentalId: number) {
  return books.database.db.selectFrom('segment').selectAll().where('rental_id', '=', rentalId).executeTakeFirstOrThrow()
}

test('charges nothing past the last list of the engine, and writes nothing while it is unreachable', async () => {
  const actor = await openAccount(books, 'away', usd('1000'))
  const rentalId = await startRental(books, actor, { pricePerHour: PRICE })
  books.clock.advance(10 * MINUTE_MS)
  await showEverything()
  await pass()
  const shown = await segmentOf(rentalId)
  expect(shown.settled_nano).toBe(costOfSpan(PRICE, 10 * MINUTE_MS))
  books.clock.advance(3 * HOUR_MS)
  await pass()
  expect(await segmentOf(rentalId)).toMatchObject({ settled_nano: shown.settled_nano, settlements: shown.settlements })
  await showEverything()
  books.clock.advance(MINUTE_MS)
  await pass()
  expect((await segmentOf(rentalId)).settled_nano).toBe(costOfSpan(PRICE, 10 * MINUTE_MS + 3 * HOUR_MS))
})

test('postpones and reports a segment that cannot be settled, and charges the others', async () => {
  const actor = await openAccount(books, 'broken', usd('1000'))
  const broken = await startRental(books, actor, { pricePerHour: PRICE })
  const sound = await startRental(books, actor, { pricePerHour: PRICE })
  books.clock.advance(10 * MINUTE_MS)
  await showEverything()
  await books.database.pool.query(
    `create function refuse_one() returns trigger language plpgsql as $$ begin
       if new.rental_id = ${broken} then raise exception 'planted'; end if; return new; end $$;
     create trigger refuse_one before insert on posting for each row execute function refuse_one()`,
  )
  await expect(pass()).rejects.toThrow('planted')
  expect((await segmentOf(sound)).settled_nano).toBe(costOfSpan(PRICE, 10 * MINUTE_MS))
  const waiting = await segmentOf(broken)
  expect(waiting).toMatchObject({ settled_nano: 0n, settlements: 0 })
  expect(waiting.due_at).toBe(books.clock.now() + 60 * SECOND_MS)
})
