import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS, toDate } from '../base/instant.ts'
import { usd } from '../base/money.ts'
import {
  breakRental,
  buy,
  endRental,
  openAccount,
  openBooks,
  refund,
  settle,
  startRental,
  startVolume,
  type Books,
} from '../../test/harness/books.ts'
import { transact, type Db } from './database.ts'
import { ledgerChecks, readHouse, readWholeBooks, runCheck } from './ledger-verify.ts'
import { moveRental } from './rental.ts'

let books: Books
/** Rentals by what became of them. */
const rentals = { running: 0, ended: 0, lost: 0, broken: 0, poor: 0 }
let volume = 0

beforeAll(async () => {
  books = await openBooks()
  await keepHouse()
})
afterAll(() => books.close())

/** Everything that happens in an honest house: none of it may look like a fault. */
async function keepHouse(): Promise<void> {
  const { clock, database } = books
  const actor = await openAccount(books, 'verify', usd('500'))
  const poor = await openAccount(books, 'poor', usd('6'))
  const { accountId: supplierId } = await openAccount(books, 'supplier')
  const supplier = { accountId: supplierId, platformFeeBp: 1_250 }
  await openMachine(books.database.db)

  rentals.running = await startRental(books, actor, { pricePerHour: usd('23.92'), supplier })
  rentals.ended = await startRental(books, actor, { pricePerHour: usd('1.337'), supplier })
  rentals.lost = await startRental(books, actor, { pricePerHour: usd('3') })
  rentals.broken = await startRental(books, actor, { pricePerHour: usd('3') })
  rentals.poor = await startRental(books, poor, { pricePerHour: usd('6') })
  volume = await startVolume(books, actor, usd('0.000097'), 1_024)
  await sql`select claim_gpus('m1', 3, ${rentals.running}, ${toDate(clock.now())})`.execute(database.db)
  await sql`select claim_gpus('m1', 2, ${rentals.ended}, ${toDate(clock.now())})`.execute(database.db)

  clock.advance(7 * MINUTE_MS + 1)
  for (const id of [rentals.running, rentals.ended]) await settle(books, { rentalId: id, volumeId: null })
  await settle(books, { rentalId: null, volumeId: volume })
  const seen = clock.now()
  clock.advance(11 * MINUTE_MS + 17)
  await transact(database, (tx) => moveRental(tx, rentals.lost, 'Unknown', { seen_at: seen }))
  await breakRental(books, rentals.broken)
  clock.advance(MINUTE_MS)
  for (const id of [rentals.lost, rentals.broken, rentals.ended]) await endRental(books, id)
  await refund(books, actor.accountId, rentals.ended, usd('0.1'))
  // The meter was away, and the money was gone long before the customer asked for the end.
  clock.advance(2 * HOUR_MS)
  await endRental(books, rentals.poor)
  await settle(books, { rentalId: rentals.running, volumeId: null })
  await buy(books, poor.accountId, usd('20'))
  await startRental(books, poor, { pricePerHour: usd('0') })
}

async function openMachine(db: Db): Promise<void> {
  const at = toDate(books.clock.now())
  await sql`
    insert into machine (id, driver, cluster_name, region, offering, status, gpu_type, gpu_model, gpu_ram_mib,
      gpu_form_factor, network_type, gpus_total, hardware, seen_at, created_at)
    values ('m1', 'mock', 'mock', 'mock-region', 'virtual-machine', 'node_ready', 'h100', 'H100', 81920,
      'sxm5', 'ethernet', 8, '{}', ${at}, ${at})`.execute(db)
}

test('the names are told apart', () => {
  expect(new Set(ledgerChecks.map((check) => check.name)).size).toBe(ledgerChecks.length)
})

test('an honest house has no findings, and every check had something to look at', async () => {
  const outcomes = await readWholeBooks(books.database, async (db) => {
    const seen: Array<{ name: string; rows: number; findings: unknown[] }> = []
    for (const check of ledgerChecks) {
      const { rows, findings } = await runCheck(db, check, 10)
      seen.push({ name: check.name, rows, findings })
    }
    return seen
  })
  expect(outcomes.flatMap((outcome) => outcome.findings)).toEqual([])
  expect(outcomes.filter((outcome) => outcome.rows === 0)).toEqual([])
})

test('the house’s accounts are the other side of its customers’', async () => {
  const house = await readHouse(books.database.db)
  const customers = await sql<{ sum: string }>`select sum(balance_nano)::text as sum from ledger_account`.execute(
    books.database.db,
  )
  expect([...house.keys()]).toEqual(['adjustments', 'funding', 'payouts', 'revenue'])
  expect(house.get('funding')).toBe(-usd('526'))
  const sum = [...house.values()].reduce((sum, amount) => sum + amount, 0n)
  expect(sum + BigInt(customers.rows[0]?.sum ?? '0')).toBe(0n)
})

test('the books are read as they were when the recount began, and cannot be written', async () => {
  await readWholeBooks(books.database, async (db) => {
    const count = async () => (await sql<{ n: bigint }>`select count(*) as n from posting`.execute(db)).rows[0]?.n
    const before = await count()
    await buy(books, 'acc_verify', usd('1'))
    expect(await count()).toBe(before)
  })
  const write = readWholeBooks(books.database, (db) => sql`delete from hold`.execute(db))
  await expect(write).rejects.toMatchObject({ code: '25006' })
})

describe('a fault that a hand or a bug has planted', () => {
  const rental = (which: keyof typeof rentals) => `rental ${rentals[which]}`
  const segmentOf = (which: keyof typeof rentals) => `(select max(id) from segment where rental_id = ${rentals[which]})`

  /** By check: what is done to the books, and whom it must name. */
  const plants: Record<string, Array<[string, () => string, () => string | RegExp]>> = {
    balance_is_its_transfers: [
      [
        'a balance grew',
        () =>
          `update ledger_account set balance_nano = balance_nano + 1 where account_id = 'acc_verify' and kind = 'available'`,
        () => 'acc_verify available',
      ],
      ['a transfer is gone', () => `delete from transfer where id = (select max(id) from transfer)`, () => /^acc_/],
    ],
    ledger_sums_to_zero: [
      [
        'a balance grew',
        () =>
          `update ledger_account set balance_nano = balance_nano + 1 where account_id = 'acc_verify' and kind = 'available'`,
        () => 'ledger',
      ],
    ],
    never_below_zero: [
      [
        'a balance',
        () =>
          `alter table ledger_account drop constraint never_negative; update ledger_account set balance_nano = -1 where account_id = 'acc_poor' and kind = 'held'`,
        () => 'acc_poor held',
      ],
      [
        'a hold',
        () =>
          `alter table hold drop constraint hold_amount_nano_check; update hold set amount_nano = -1 where key = 'rental:${rentals.ended}'`,
        () => `rental:${rentals.ended}`,
      ],
    ],
    holds_are_what_is_held: [
      [
        'a hold lost a nano-dollar',
        () => `update hold set amount_nano = amount_nano - 1 where key = 'rental:${rentals.running}'`,
        () => 'acc_verify',
      ],
    ],
    posting_has_transfers: [
      [
        'one without',
        () =>
          `insert into posting (key, kind, at, account_id, memo) values ('bare', 'credit', now(), 'acc_verify', 'x')`,
        () => 'bare',
      ],
    ],
    posting_moves_its_own_balance: [
      [
        'it stands on the wrong statement',
        () => `update posting set account_id = 'acc_poor' where key = 'rental:${rentals.running}:hold'`,
        () => `rental:${rentals.running}:hold`,
      ],
    ],
    segment_settled_is_its_charges: [
      [
        'it says more',
        () => `update segment set settled_nano = settled_nano + 1 where id = ${segmentOf('running')}`,
        () => /^segment \d+$/,
      ],
      ['it is gone', () => `delete from segment where rental_id = ${rentals.ended}`, () => /^segment \d+$/],
    ],
    segment_settled_to_the_millisecond: [
      [
        'a millisecond is missing',
        () => `update segment set settled_until = settled_until - interval '1 ms' where id = ${segmentOf('running')}`,
        () => /^segment \d+$/,
      ],
      [
        'it ended and was not charged to its end',
        () => `update segment set ended_at = settled_until + interval '1 ms' where id = ${segmentOf('running')}`,
        () => /^segment \d+$/,
      ],
    ],
    supplier_gets_its_share: [
      [
        'it was written down and not paid',
        () => `update segment set supplier_nano = supplier_nano + 1 where id = ${segmentOf('running')}`,
        () => /^segment \d+$/,
      ],
      [
        'the fee grew afterwards',
        () => `update segment set platform_fee_bp = 5000 where id = ${segmentOf('ended')}`,
        () => /^segment \d+$/,
      ],
      [
        'it went to another',
        () => `update segment set supplier_id = 'acc_poor' where id = ${segmentOf('ended')}`,
        () => /^segment \d+$/,
      ],
    ],
    segments_follow_one_another: [
      [
        'an overlap',
        () => `alter table segment drop constraint rental_segments_never_overlap; ${second(`- interval '1 ms'`)}`,
        () => rental('ended'),
      ],
      ['a hole', () => second(`+ interval '1 ms'`), () => rental('ended')],
    ],
    bill_begins_with_the_rental: [
      [
        'it began late',
        () => `update rental set started_at = started_at - interval '1 ms' where id = ${rentals.running}`,
        () => rental('running'),
      ],
      ['it never began', () => `delete from segment where rental_id = ${rentals.lost}`, () => rental('lost')],
    ],
    bill_ends_with_the_rental: [
      [
        'it went on',
        () =>
          `update rental set terminate_requested_at = terminate_requested_at - interval '1 ms' where id = ${rentals.ended}`,
        () => rental('ended'),
      ],
      [
        'it stopped early',
        () =>
          `update rental set terminate_requested_at = terminate_requested_at + interval '1 ms' where id = ${rentals.ended}`,
        () => rental('ended'),
      ],
      [
        'it failed, and went on',
        () =>
          `update rental set status = 'Failed', status_since = status_since - interval '1 hour' where id = ${rentals.broken}`,
        () => rental('broken'),
      ],
    ],
    what_runs_is_metered: [
      [
        'a rental',
        () => `update segment set ended_at = settled_until where id = ${segmentOf('running')}`,
        () => rental('running'),
      ],
      [
        'a volume',
        () => `update segment set ended_at = settled_until where volume_id = ${volume}`,
        () => `volume ${volume}`,
      ],
    ],
    what_ended_costs_nothing: [
      [
        'a meter runs on',
        () => `update segment set ended_at = null where id = ${segmentOf('ended')}`,
        () => rental('ended'),
      ],
      [
        'money is still set aside',
        () => `update hold set amount_nano = 5 where key = 'rental:${rentals.ended}'`,
        () => rental('ended'),
      ],
      [
        'a volume’s meter runs on',
        () => `update volume set state = 'deleting' where id = ${volume}`,
        () => `volume ${volume}`,
      ],
      [
        'a volume’s money is still set aside',
        () => `update volume set state = 'deleted' where id = ${volume}`,
        () => `volume ${volume}`,
      ],
    ],
    gpus_claimed_are_counted: [
      ['one too many', () => `update machine set gpus_claimed = gpus_claimed + 1`, () => 'machine m1'],
    ],
    gpus_claimed_are_in_use: [
      [
        'by one that was released',
        () => `update gpu_claim set rental_id = ${rentals.ended} where gpu_index = 0`,
        () => 'machine m1 GPU 0',
      ],
    ],
    key_spend_is_its_charges: [
      [
        'it grew',
        () => `update key_spend set spent_nano = spent_nano + 1 where api_key_id = 'verifykey'`,
        () => 'key verifykey 2026-01',
      ],
      ['it is gone', () => `delete from key_spend where api_key_id = 'verifykey'`, () => 'key verifykey 2026-01'],
    ],
  }
  const second = (shift: string) =>
    `insert into segment (account_id, rental_id, hold_key, started_at, ended_at, price_nano_per_hour, settled_until, due_at)
     select account_id, rental_id, hold_key, ended_at ${shift}, ended_at + interval '1 hour', 0, ended_at + interval '1 hour', due_at
     from segment where id = ${segmentOf('ended')}`

  test('there is one for every check', () => {
    expect(Object.keys(plants).sort()).toEqual(ledgerChecks.map((check) => check.name).sort())
  })

  const cases = Object.entries(plants).flatMap(([name, planted]) =>
    planted.map(([what, ...rest]) => [name, what, ...rest] as const),
  )

  test.each(cases)('%s: %s', async (name, _, plant, subject) => {
    const check = ledgerChecks.find((check) => check.name === name)
    if (check === undefined) throw new Error(`no check ${name}`)
    const outcome = await inSpoiledBooks(plant(), (db) => runCheck(db, check, 10))
    expect(outcome.total).toBe(outcome.findings.length)
    const expected = subject()
    expect(outcome.findings).toContainEqual({
      check: name,
      subject: typeof expected === 'string' ? expected : expect.stringMatching(expected),
      detail: expect.stringMatching(/./),
    })
  })
})

class PutBack extends Error {}

/** Spoils the books past triggers and foreign keys, looks, and puts everything back. */
async function inSpoiledBooks<T>(spoil: string, look: (db: Db) => Promise<T>): Promise<T> {
  let seen: { value: T } | undefined
  await books.database.db
    .transaction()
    .execute(async (db) => {
      await sql`set local session_replication_role = replica`.execute(db)
      await sql.raw(spoil).execute(db)
      seen = { value: await look(db) }
      throw new PutBack()
    })
    .catch((error: unknown) => {
      if (!(error instanceof PutBack)) throw error
    })
  if (seen === undefined) throw new Error('nothing was looked at')
  return seen.value
}
