/**
 * A ledger with data in it: accounts, money, and metered rentals and volumes. The store's own functions write
 * everything, so tests find in the ledger what production code would.
 */
import { sql, type Insertable } from 'kysely'
import { toDate, type Instant } from '../../src/base/instant.ts'
import { costOfSpan, usd, type NanoUsd } from '../../src/base/money.ts'
import { makeVault } from '../../src/base/vault.ts'
import type { Actor, App } from '../../src/app/app.ts'
import { failRental, terminateRental } from '../../src/app/rental/rental.ts'
import { beginStop, finishStop } from '../../src/app/rental/rental-power.ts'
import { HOLD_COVERS_MS, planSettlement } from '../../src/domain/metering.ts'
import type { RentalKind } from '../../src/domain/rental.ts'
import { commitmentOf, grantTerm, type ReserveOption, type Term, type TermRequest } from '../../src/domain/term.ts'
import { randomName } from '../../src/base/id.ts'
import type { Tables } from '../../src/store/platform/tables.ts'
import { manualClock, type ManualClock } from '../sim/clock.ts'
import { openDatabase, transact, type Database, type Tx } from '../../src/store/platform/database.ts'
import { placeHold, post } from '../../src/store/ledger/ledger.ts'
import { insertTerm, lockRental, moveRental } from '../../src/store/rental/rental.ts'
import {
  findOpenSegment,
  holdKey,
  lockFunds,
  openSegment,
  openSegmentOf,
  settleSegment,
  type Metered,
} from '../../src/store/ledger/segment.ts'
import { insertVolume, moveVolume } from '../../src/store/volume/volume.ts'
import { testDatabase, type TestDatabase } from './database.ts'
import { writeRequest } from './ended-request.ts'

export interface TestLedger {
  readonly database: Database
  readonly clock: ManualClock
  readonly app: App
  close(): Promise<void>
}

export async function openTestLedger(start?: Instant, on?: TestDatabase): Promise<TestLedger> {
  const test = on ?? (await testDatabase())
  const clock = manualClock(start)
  const database = openDatabase({ url: test.url, clock })
  const app: App = {
    database,
    clock,
    installationId: 'books0',
    drivers: new Map(),
    vault: makeVault('ledger'),
    stoppedDiskPerGbMonth: usd('0.10'),
    cpuPerHour: usd('0.02'),
    allowPrivateAddresses: true,
  }
  return {
    database,
    clock,
    app,
    close: async () => {
      await database.close()
      await test.drop()
    },
  }
}

/** An account `acc_<name>` with the member `usr_<name>` and the key `<name>key`. */
export async function openAccount(ledger: TestLedger, name: string, money?: NanoUsd): Promise<Actor> {
  const at = toDate(ledger.clock.now())
  const accountId = `acc_${name}`
  const personId = `usr_${name}`
  const keyId = `${name}key`
  const { db } = ledger.database
  await db
    .insertInto('account')
    .values({ id: accountId, name: `${name} Ltd`, created_at: at })
    .execute()
  await db
    .insertInto('person')
    .values({ id: personId, email: `${name}@example.com`, created_at: at })
    .execute()
  await db
    .insertInto('api_key')
    .values({
      public_id: keyId,
      account_id: accountId,
      person_id: personId,
      name,
      last4: 'abcd',
      secret_hash: Buffer.alloc(32),
      scopes: ['operator'],
      created_at: at,
    })
    .execute()
  if (money !== undefined) await buy(ledger, accountId, money)
  return { accountId, personId, keyId, role: 'owner', scopes: ['operator'] }
}

let purchases = 0

export async function buy(ledger: TestLedger, accountId: string, amount: NanoUsd, memo = 'Purchase'): Promise<void> {
  purchases += 1
  await transact(ledger.database, (tx) =>
    post(tx, {
      key: `purchase:${purchases}`,
      kind: 'purchase',
      accountId,
      memo,
      actor: 'test',
      reason: 'a test needs money',
      transfers: [{ from: { accountId: null, kind: 'funding' }, to: { accountId, kind: 'available' }, amount }],
    }),
  )
}

export interface RentalOrder {
  readonly pricePerHour: NanoUsd
  readonly kind?: RentalKind
  readonly label?: string
  readonly supplier?: { accountId: string; platformFeeBp: number }
  /** Reserved for the longest of these terms; `pricePerHour` is the list price. */
  readonly reserved?: readonly ReserveOption[]
}

/** Starts a rental now and sets its first hour or whole term aside. */
export async function startRental(ledger: TestLedger, actor: Actor, order: RentalOrder): Promise<number> {
  return transact(ledger.database, async (tx) => {
    const now = tx.clock.now()
    const { id } = await insertBareRental(tx, {
      account_id: actor.accountId,
      person_id: actor.personId,
      api_key_id: actor.keyId,
      kind: order.kind ?? 'virtual-machine',
      label: order.label ?? null,
      region: 'mock-region',
      cluster_name: 'mock',
      gpu_type: 'h100',
      gpu_count: 8,
      network_type: 'ethernet',
      driver: 'mock',
    })
    const metered = { rentalId: id, volumeId: null }
    const term = termFor(order, now)
    await insertTerm(tx, id, 1, term)
    const commitment = commitmentOf(term, order.reserved ?? [])
    if (commitment !== null) {
      const rates = commitment.rates.map(({ days, perHour }) => ({ days, nanoPerHour: perHour.toString() }))
      const row = { rental_id: id, total_nano: commitment.total, rates: JSON.stringify(rates) }
      await tx.db.insertInto('commitment').values(row).execute()
      await sql`select draw_credit('draw:' || gen_random_uuid(), ${actor.accountId}, ${commitment.total}::bigint, ${toDate(now)})`.execute(
        tx.db,
      )
    }
    await setAside(tx, actor, metered, commitment?.total ?? costOfSpan(term.costPerHour, HOLD_COVERS_MS))
    await moveRental(tx, id, 'Running', { started_at: now, seen_at: now })
    await openSegment(tx, {
      metered,
      accountId: actor.accountId,
      startedAt: now,
      pricePerHour: term.costPerHour,
      supplier: order.supplier ?? null,
      dueAt: now,
    })
    return id
  })
}

export async function startVolume(
  ledger: TestLedger,
  actor: Actor,
  perGbHour: NanoUsd,
  sizeGb: number,
): Promise<number> {
  return transact(ledger.database, async (tx) => {
    const now = tx.clock.now()
    const pricePerHour = (perGbHour * BigInt(sizeGb)) as NanoUsd
    const { id } = await insertVolume(tx, {
      accountId: actor.accountId,
      personId: actor.personId,
      keyId: actor.keyId,
      region: 'mock-region',
      driver: 'mock',
      label: 'datasets',
      sizeGb,
      costPerHour: pricePerHour,
    })
    const metered = { rentalId: null, volumeId: id }
    await setAside(tx, actor, metered, costOfSpan(pricePerHour, HOLD_COVERS_MS))
    await moveVolume(tx, id, 'active', { started_at: now })
    await openSegment(tx, {
      metered,
      accountId: actor.accountId,
      startedAt: now,
      pricePerHour,
      supplier: null,
      dueAt: now,
    })
    return id
  })
}

function termFor({ pricePerHour, reserved = [] }: RentalOrder, now: Instant): Term {
  const longest = reserved.toSorted((one, other) => one.termPeriodDays - other.termPeriodDays).at(-1)
  const request: TermRequest =
    longest === undefined ? { termType: 'on-demand', discountPercentage: 0 } : { termType: 'reserved', ...longest }
  const granted = grantTerm(request, pricePerHour, reserved, now)
  if (!granted.ok) throw new Error(granted.message)
  return granted.value
}

/** A rental without claims, which the ledger does not need. */
async function insertBareRental(tx: Tx, rental: Partial<Insertable<Tables['rental']>>): Promise<{ id: number }> {
  const now = toDate(tx.clock.now())
  const values = {
    ...rental,
    name: randomName(),
    spec: JSON.stringify({ nodes: [], resources: { cpuModel: 'any', cpuCount: 1, ramGb: 1, storageGb: 100 } }),
    status_since: now,
    created_at: now,
    due_at: now,
  }
  return tx.db
    .insertInto('rental')
    .values(values as Insertable<Tables['rental']>)
    .returning('id')
    .executeTakeFirstOrThrow()
}

async function setAside(tx: Tx, actor: Actor, metered: Metered, amount: NanoUsd): Promise<void> {
  const key = holdKey(metered)
  const answer = await placeHold(tx, {
    postingKey: `${key}:hold`,
    holdKey: key,
    accountId: actor.accountId,
    amount,
    memo: 'Set aside',
  })
  if (answer === 'insufficient') throw new Error('the test gave the account too little money')
}

/** Runs the meter once for one rental or volume. */
export async function settle(ledger: TestLedger, metered: Metered): Promise<void> {
  await transact(ledger.database, async (tx) => {
    const row = await findOpenSegment(tx.db, metered)
    if (row === undefined) throw new Error('nothing runs')
    const plan = planSettlement(openSegmentOf(row), await lockFunds(tx, row), tx.clock.now())
    await settleSegment(tx, row, plan, `use of ${row.hold_key}`)
  })
}

/** The customer ends a rental. No engine knows it, so it is gone immediately. */
export async function endRental(ledger: TestLedger, rentalId: number): Promise<void> {
  await transact(ledger.database, async (tx) => {
    const rental = await lockRental(tx, rentalId)
    if (rental === undefined) throw new Error('no such rental')
    await terminateRental(tx, rental, 'customer_request', tx.clock.now())
  })
}

/** The customer stops a rental, and its engine shows it off at once. */
export async function stopRental(ledger: TestLedger, rentalId: number): Promise<void> {
  await transact(ledger.database, async (tx) => {
    const rental = await lockRental(tx, rentalId)
    if (rental === undefined) throw new Error('no such rental')
    const stopping = await beginStop(ledger.app, tx, rental, { reason: 'stop_requested' })
    await finishStop(tx, stopping, tx.clock.now(), tx.clock.now())
  })
}

export async function breakRental(ledger: TestLedger, rentalId: number): Promise<void> {
  await transact(ledger.database, async (tx) => {
    const rental = await lockRental(tx, rentalId)
    if (rental === undefined) throw new Error('no such rental')
    await failRental(tx, rental, 'engine_failure')
  })
}

export async function refund(ledger: TestLedger, accountId: string, rentalId: number, amount: NanoUsd): Promise<void> {
  await transact(ledger.database, (tx) =>
    post(tx, {
      key: `refund:${rentalId}:${ledger.clock.now()}`,
      kind: 'refund',
      accountId,
      memo: `Refund of rental ${rentalId}`,
      actor: 'test',
      reason: 'host rebooted',
      rentalId,
      transfers: [{ from: { accountId: null, kind: 'revenue' }, to: { accountId, kind: 'available' }, amount }],
    }),
  )
}

export async function infer(
  ledger: TestLedger,
  actor: Actor,
  requestId: string,
  model: string,
  cost: NanoUsd,
  keyId: string | null,
): Promise<void> {
  const { accountId } = actor
  const at = ledger.clock.now()
  await writeRequest(ledger.database.db, {
    requestId,
    accountId,
    apiKeyId: keyId ?? '',
    model,
    at,
    cost,
  })
}

/** Like a gateway: takes a lease and charges the spent part in one posting. */
export async function chargeInference(
  ledger: TestLedger,
  actor: Actor,
  model: string,
  amount: NanoUsd,
  keyId: string | null,
): Promise<void> {
  await transact(ledger.database, async (tx) => {
    const holdKey = `lease:${model}`
    await placeHold(tx, { postingKey: `${holdKey}:1`, holdKey, accountId: actor.accountId, amount, memo: 'Lease' })
    await sql`select ledger_charge(${`inference:${model}:1`}, ${holdKey}, ${toDate(tx.clock.now())},
      ${amount.toString()}::bigint, ${`Inference, ${model}`}, null, 0, null, null, ${keyId}, ${model})`.execute(tx.db)
  })
}
