/** What the list of an engine makes of a rental, where the simulated engine cannot show it. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { App } from '../app/app.ts'
import { rentalTag } from '../app/rental.ts'
import { MINUTE_MS } from '../base/instant.ts'
import { costOfSpan, usd } from '../base/money.ts'
import type { Driver, EngineMachine } from '../engines/driver.ts'
import { findRental } from '../store/rental.ts'
import { endRental, openAccount, openBooks, startRental, type Books } from '../../test/harness/books.ts'
import { observe } from './observe.ts'

const PRICE = usd('6')
let books: Books
beforeAll(async () => {
  books = await openBooks()
})
afterAll(() => books.close())

/** An engine that shows what it is told to, and can do nothing else. */
function engineShowing(shown: () => readonly EngineMachine[]): App {
  const refuse = (): never => {
    throw new Error('it only shows')
  }
  const driver: Driver = {
    id: 'mock',
    givesSsh: false,
    listLagMs: 0,
    callTimeoutMs: MINUTE_MS,
    check: refuse,
    inventory: refuse,
    create: refuse,
    destroy: refuse,
    list: async () => [...shown()],
  }
  return { ...books.app, drivers: new Map([['mock', driver]]) }
}

test('what ran and is shown starting again is Unknown until it runs, and is paid for until it was last shown running', async () => {
  const actor = await openAccount(books, 'again', usd('1000'))
  const [back, ended] = [
    await startRental(books, actor, { pricePerHour: PRICE }),
    await startRental(books, actor, { pricePerHour: PRICE }),
  ]
  const rental = async (id: number) => {
    const found = await findRental(books.database.db, id)
    if (found === undefined) throw new Error('no such rental')
    return found
  }
  const tags = await Promise.all([back, ended].map(async (id) => rentalTag(books.app, await rental(id))))
  let state: EngineMachine['state'] = 'running'
  const app = engineShowing(() => tags.map((tag) => ({ externalId: tag, tag, state })))
  const look = async (afterMs: number): Promise<void> => {
    books.clock.advance(afterMs)
    await observe(app).run(new AbortController().signal)
  }
  await look(10 * MINUTE_MS)
  state = 'starting'
  await look(MINUTE_MS)
  expect([(await rental(back)).status, (await rental(ended)).status]).toEqual(['Unknown', 'Unknown'])
  await look(MINUTE_MS)
  await endRental(books, ended)
  state = 'running'
  await look(MINUTE_MS)
  expect((await rental(back)).status).toBe('Running')
  const { settled_nano: paid } = await books.database.db
    .selectFrom('segment')
    .select('settled_nano')
    .where('rental_id', '=', ended)
    .executeTakeFirstOrThrow()
  expect(paid).toBe(costOfSpan(PRICE, 10 * MINUTE_MS))
})
