/** The meter with an unreachable provider, and with a row that cannot be settled. */
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS, SECOND_MS, toDate } from '../base/instant.ts'
import { compareUsd, costOfSpan, usd } from '../base/money.ts'
import { openAccount, openTestLedger, startRental, type TestLedger } from '../../test/harness/ledger.ts'
import { verifyLedger } from '../app/money/ledger-verify.ts'
import { meter } from './meter.ts'

const PRICE = usd('6')
let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())

const pass = () => meter(ledger.app).run(new AbortController().signal)

/** The provider's list is good as of now. */
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
  const before = await segmentOf(rentalId)
  expect(before.settled_nano).toBe(costOfSpan(PRICE, 10 * MINUTE_MS))
  ledger.clock.advance(3 * HOUR_MS)
  await pass()
  expect(await segmentOf(rentalId)).toMatchObject({
    settled_nano: before.settled_nano,
    settlements: before.settlements,
  })
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
  await ledger.database.pool.query('drop trigger refuse_one on posting')
})

/** What the settlements of a rental wrote, without ids. */
async function writtenFor(rentalId: number) {
  const { rows } = await sql<{ all: unknown }>`
    select jsonb_build_object(
      'segment', to_jsonb(s) - '{id,rental_id,hold_key,account_id}'::text[],
      'hold', (select h.amount_nano from hold h where h.key = s.hold_key),
      'balance', (select jsonb_object_agg(l.kind, l.balance_nano) from ledger_account l where l.account_id = s.account_id),
      'spent', (select jsonb_agg(k.spent_nano) from key_spend k join rental r on r.api_key_id = k.api_key_id where r.id = s.rental_id),
      'postings', (select jsonb_agg(jsonb_build_array(replace(p.key, s.id::text, 'id'), p.kind, p.at, p.rental_id = s.rental_id,
           p.api_key_id is null, replace(p.memo, r.name, 'name'),
           (select jsonb_agg(jsonb_build_array(f.kind, f.account_id is null, o.kind, o.account_id is null, t.amount_nano) order by t.id)
            from transfer t join ledger_account f on f.id = t.from_id join ledger_account o on o.id = t.to_id
            where t.posting_id = p.id)) order by p.id)
         from posting p join rental r on r.id = s.rental_id where p.key like 'segment:' || s.id || ':%'),
      'days', (select jsonb_agg(jsonb_build_array(d.day, d.kind, d.service, d.amount_nano, d.postings) order by d.kind)
         from ledger_day d where d.account_id = s.account_id and d.kind in ('charge', 'hold')))
      as all
    from segment s where s.rental_id = ${rentalId}`.execute(ledger.database.db)
  return rows[0]?.all
}

test('writes the same for rentals that are charged together as for one that is charged alone', async () => {
  const supplier = await openAccount(ledger, 'supplier')
  const order = { pricePerHour: PRICE, supplier: { accountId: supplier.accountId, platformFeeBp: 1_500 } }
  const together: number[] = []
  for (const name of ['one', 'two'])
    together.push(await startRental(ledger, await openAccount(ledger, name, usd('100')), order))
  const alone = await startRental(ledger, await openAccount(ledger, 'alone', usd('100')), order)
  // A limit that is far away, so that it has to be looked at.
  await ledger.database.db
    .updateTable('rental')
    .set({ spending_limit_nano: usd('1000') })
    .where('id', '=', alone)
    .execute()
  // After 40 minutes the hold is topped up.
  for (const minutes of [5, 35, 7]) {
    ledger.clock.advance(minutes * MINUTE_MS)
    await showEverything()
    await pass()
    const [first, second] = await Promise.all(together.map(writtenFor))
    expect(first).toEqual(second)
    expect(first).toEqual(await writtenFor(alone))
    expect(await segmentOf(alone)).toMatchObject({ due_at: ledger.clock.now() + 5 * MINUTE_MS })
  }
  expect((await segmentOf(together[0] ?? 0)).settled_nano).toBe(costOfSpan(PRICE, 47 * MINUTE_MS))
  const verdict = await verifyLedger(ledger.app)
  expect(verdict.ok && verdict.value.findings).toEqual([])
})

test('ends a rental whose money runs out in a batch with others of its account', async () => {
  const actor = await openAccount(ledger, 'short', usd('13'))
  const rentals = [
    await startRental(ledger, actor, { pricePerHour: PRICE }),
    await startRental(ledger, actor, { pricePerHour: PRICE }),
  ]
  for (let n = 0; n < 4; n += 1) {
    ledger.clock.advance(20 * MINUTE_MS)
    await showEverything()
    await pass()
  }
  const segments = await Promise.all(rentals.map(segmentOf))
  // Two at $6 per hour share $13: the last dollar goes to one of them.
  expect(segments.map(({ settled_nano }) => settled_nano).toSorted(compareUsd)).toEqual([usd('6'), usd('7')])
  expect(segments.every(({ ended_at }) => ended_at !== null)).toBe(true)
})
