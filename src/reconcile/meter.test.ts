/** The meter with an unreachable engine, and with a row that cannot be settled. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS, SECOND_MS, toDate } from '../base/instant.ts'
import { costOfSpan, usd } from '../base/money.ts'
import { openAccount, openTestLedger, startRental, type TestLedger } from '../../test/harness/ledger.ts'
import { meter } from './meter.ts'

const PRICE = usd('6')
let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())

const pass = () => meter(ledger.app).run(new AbortController().signal)

/** The engine's list is good as of now. */
async function showEverything(): Promise<void> {
  const done_at = toDate(ledger.clock.now())
  await ledger.database.db
    .insertInto('loop')
    .values({ name: 'observe:mock', done_at })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ done_at }))
    .execute()
}

async function segmentOf(rentalId: number) {
  return ledger.database.db
    .selectFrom('segment')
    .selectAll()
    .where('rental_id', '=', rentalId)
    .executeTakeFirstOrThrow()
}

test('charges nothing past the last list of the engine, and writes nothing while it is unreachable', async () => {
  const actor = await openAccount(ledger, 'away', usd('1000'))
  const rentalId = await startRental(ledger, actor, { pricePerHour: PRICE })
  ledger.clock.advance(10 * MINUTE_MS)
  await showEverything()
  await pass()
  const shown = await segmentOf(rentalId)
  expect(shown.settled_nano).toBe(costOfSpan(PRICE, 10 * MINUTE_MS))
  ledger.clock.advance(3 * HOUR_MS)
  await pass()
  expect(await segmentOf(rentalId)).toMatchObject({ settled_nano: shown.settled_nano, settlements: shown.settlements })
  await showEverything()
  ledger.clock.advance(MINUTE_MS)
  await pass()
  expect((await segmentOf(rentalId)).settled_nano).toBe(costOfSpan(PRICE, 10 * MINUTE_MS + 3 * HOUR_MS))
})

test('postpones and reports a segment that cannot be settled, and charges the others', async () => {
  const actor = await openAccount(ledger, 'broken', usd('1000'))
  const broken = await startRental(ledger, actor, { pricePerHour: PRICE })
  const sound = await startRental(ledger, actor, { pricePerHour: PRICE })
  ledger.clock.advance(10 * MINUTE_MS)
  await showEverything()
  await ledger.database.pool.query(
    `create function refuse_one() returns trigger language plpgsql as $$ begin
       if new.rental_id = ${broken} then raise exception 'planted'; end if; return new; end $$;
     create trigger refuse_one before insert on posting for each row execute function refuse_one()`,
  )
  await expect(pass()).rejects.toThrow('planted')
  expect((await segmentOf(sound)).settled_nano).toBe(costOfSpan(PRICE, 10 * MINUTE_MS))
  const waiting = await segmentOf(broken)
  expect(waiting).toMatchObject({ settled_nano: 0n, settlements: 0 })
  expect(waiting.due_at).toBe(ledger.clock.now() + 60 * SECOND_MS)
})
