/** Orders in batches: the rows and reasons of orders alone, and nothing of what is not placed. */
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addMs, HOUR_MS } from '../../base/instant.ts'
import { nanoUsdOf, sumUsd, usd, type NanoUsd } from '../../base/money.ts'
import { ok } from '../../contract/result.ts'
import { mockFleet } from '../../drivers/mock/fleet.ts'
import type { InstanceOrder } from '../../domain/order.ts'
import { transact } from '../../store/platform/database.ts'
import { readBalances } from '../../store/ledger/ledger.ts'
import { changeMachine, findMachine, saveInventory } from '../../store/machine/machine.ts'
import { placeTogether } from '../../store/rental/order.ts'
import { buy, openAccount, openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import type { Actor } from '../app.ts'
import { createOnce } from '../idempotency.ts'
import { verifyLedger } from '../money/ledger-verify.ts'
import { createInstance } from './marketplace.ts'
import { OrderBatches } from './order-batch.ts'

const PRICE = usd('2')
const MACHINES = 40
const SSH_KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f'
let ledger: TestLedger
let batches: OrderBatches
beforeAll(async () => {
  ledger = await openTestLedger()
  batches = new OrderBatches(ledger.app)
  const example = mockFleet().find((one) => one.offering === 'marketplace' && one.gpusTotal === 8)
  if (example === undefined) throw new Error('the simulated fleet has changed')
  const rest = {
    supplierId: null,
    simulation: 'machine',
    price: PRICE,
    offerId: null,
    soldWhole: false,
    cost: null,
  } as const
  const machines = Array.from({ length: MACHINES }, (_, n) => ({ ...example, ...rest, id: `node-${n}` }))
  await transact(ledger.database, (tx) => saveInventory(tx, 'mock', machines, tx.clock.now()))
})
afterAll(() => ledger.close())

async function orderOf(machine: number, gpuCount = 1, more: Partial<InstanceOrder> = {}): Promise<InstanceOrder> {
  const nodeName = `node-${machine}`
  const row = await findMachine(ledger.database.db, nodeName)
  return { clusterName: row?.cluster_name ?? '', nodeName, gpuCount, image: null, ...more }
}

const once = (key?: string) => ({ key, operation: 'createInstance' as const, request: {} })
const respond = ({ name }: { name: string }) => name
const inBatch = (actor: Actor, order: InstanceOrder, key?: string) => batches.place(actor, once(key), order, respond)

let opened = 0
async function customer(money: NanoUsd): Promise<Actor> {
  opened += 1
  const name = `c${opened}`
  const actor = await openAccount(ledger, name, money)
  await ledger.database.db
    .insertInto('ssh_key')
    .values({
      id: `ssh_${name}`,
      account_id: actor.accountId,
      name: 'laptop',
      public_key: SSH_KEY,
      fingerprint: `SHA256:${name}`,
      created_at: new Date(ledger.clock.now()),
    })
    .execute()
  return actor
}

async function customers(count: number, money: NanoUsd): Promise<Actor[]> {
  const actors: Actor[] = []
  for (let n = 0; n < count; n += 1) actors.push(await customer(money))
  return actors
}

const tables = ['rental', 'term', 'posting', 'transfer', 'hold', 'gpu_claim', 'event', 'idempotency'] as const

async function countRows(): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const table of tables) {
    const { rows } = await sql<{ n: number }>`select count(*)::integer as n from ${sql.table(table)}`.execute(
      ledger.database.db,
    )
    counts[table] = rows[0]?.n ?? -1
  }
  return counts
}

/** Everything an order wrote, with its ids and names replaced. */
async function rowsOf(actor: Actor, machineId: string): Promise<unknown> {
  const { rows } = await sql<{ id: number; name: string; all: unknown }>`
    select r.id, r.name, jsonb_build_object(
      'rental', to_jsonb(r) - 'nonce',
      'term', (select jsonb_agg(to_jsonb(t)) from term t where t.rental_id = r.id),
      'hold', (select jsonb_agg(to_jsonb(h)) from hold h where h.account_id = r.account_id),
      'posting', (select jsonb_agg(to_jsonb(p) - 'id') from posting p where p.account_id = r.account_id and p.kind = 'hold'),
      'transfer', (select jsonb_agg(jsonb_build_array(f.kind, o.kind, t.amount_nano)) from transfer t
         join posting p on p.id = t.posting_id join ledger_account f on f.id = t.from_id join ledger_account o on o.id = t.to_id
         where p.account_id = r.account_id and p.kind = 'hold'),
      'balance', (select jsonb_object_agg(l.kind, l.balance_nano) from ledger_account l where l.account_id = r.account_id),
      'claim', (select jsonb_agg(to_jsonb(c)) from gpu_claim c where c.rental_id = r.id),
      'machine', (select jsonb_build_array(m.gpus_free, m.gpus_claimed, m.disk_claimed_gb) from machine m where m.id = ${machineId}),
      'event', (select jsonb_agg(to_jsonb(e) - 'id') from event e where e.account_id = r.account_id),
      'idempotency', (select jsonb_agg(to_jsonb(i) - 'body_hash' - 'response_sealed') from idempotency i where i.account_id = r.account_id)
    ) as all
    from rental r where r.account_id = ${actor.accountId}`.execute(ledger.database.db)
  expect(rows).toHaveLength(1)
  const { id = 0, name = '', all } = rows[0] ?? {}
  const number = actor.accountId.slice('acc_c'.length)
  return JSON.parse(
    JSON.stringify(all)
      .replaceAll(name, 'NAME')
      .replaceAll(machineId, 'MACHINE')
      .replaceAll(new RegExp(`(acc_|usr_)c${number}\\b`, 'g'), '$1X')
      .replaceAll(`c${number}key`, 'XKEY')
      .replaceAll(String(id), '700000'),
  )
}

test('writes the same rows as an order alone', async () => {
  // Ids that are no other number in these rows.
  await sql`select setval('rental_id_seq', 700000)`.execute(ledger.database.db)
  const options = {
    label: 'training',
    image: { name: 'ubuntu', tag: '24.04', port: 8_080 },
    autoTerminateAt: addMs(ledger.clock.now(), HOUR_MS),
    spendingLimitUsd: usd('7.5'),
    env: { MODE: 'fast' },
  }
  const together = await customer(usd('100'))
  const alone = await customer(usd('100'))
  const placed = await inBatch(together, await orderOf(0, 3, options), 'key')
  const order = await orderOf(1, 3, options)
  const created = await createOnce(ledger.app, alone, once('key'), async (tx) => {
    const rental = await createInstance(ledger.app, tx, alone, order)
    return rental.ok ? ok(rental.value.name) : rental
  })
  expect(placed?.ok).toBe(true)
  expect(created.ok).toBe(true)
  expect(await rowsOf(together, 'node-0')).toEqual(await rowsOf(alone, 'node-1'))
})

test('repeats the response to a repeated key, and refuses the key for another request', async () => {
  const actor = await customer(usd('100'))
  const placed = await inBatch(actor, await orderOf(2), 'mine')
  const before = await countRows()
  expect(await inBatch(actor, await orderOf(3), 'mine')).toBeUndefined()
  const again = await createOnce(ledger.app, actor, once('mine'), () => Promise.reject(new Error('ran twice')))
  expect(again).toEqual({ ok: true, value: placed?.ok === true && placed.value.name })
  const other = { ...once('mine'), request: { gpu_count: 2 } }
  expect(await createOnce(ledger.app, actor, other, () => Promise.reject(new Error('ran')))).toMatchObject({
    reason: 'idempotency_key_reused',
  })
  expect(await countRows()).toEqual(before)
})

test('refuses what the account rules out, leaves alone what it cannot decide, and places the rest', async () => {
  const { db } = ledger.database
  const poor = await customer(nanoUsdOf(PRICE - 1n))
  const full = await customer(usd('100'))
  await db.updateTable('account').set({ quota: '{"gpus":0}' }).where('id', '=', full.accountId).execute()
  const limited = await customer(usd('100'))
  await sql`update api_key set total_limit_nano = 1 where public_id = ${limited.keyId}`.execute(db)
  const overspent = await customer(usd('100'))
  await sql`insert into budget (id, account_id, name, scope, amount_nano, alerts, action, month, exceeded_at, created_at)
    select 'bgt_1', ${overspent.accountId}, 'b', 'account', 1, '{}', 'block',
      date_trunc('month', t at time zone 'UTC')::date, t, t
    from (select ${new Date(ledger.clock.now())}::timestamptz as t) x`.execute(db)
  await transact(ledger.database, (tx) => changeMachine(tx, 'node-8', { gpusWithdrawn: [0, 1, 2, 3, 4, 5, 6] }))
  await transact(ledger.database, (tx) => changeMachine(tx, 'node-9', { status: 'node_draining' }))
  const rich = await customers(5, usd('100'))
  const [crowded, drained, early, dear, lucky] = rich as [Actor, Actor, Actor, Actor, Actor]
  const past = addMs(ledger.clock.now(), -1)
  const before = await countRows()
  const outcomes = await Promise.all([
    inBatch(poor, await orderOf(4), 'a'),
    inBatch(full, await orderOf(5), 'b'),
    inBatch(limited, await orderOf(6), 'c'),
    inBatch(overspent, await orderOf(7), 'd'),
    inBatch(crowded, await orderOf(8, 2), 'e'),
    inBatch(drained, await orderOf(9), 'f'),
    inBatch(early, await orderOf(10, 1, { autoTerminateAt: past }), 'g'),
    inBatch(dear, await orderOf(11, 1, { maxCostPerHourUsd: usd('1.99') }), 'h'),
    inBatch(lucky, await orderOf(12)),
  ])
  const reasons = outcomes.map((outcome) => (outcome?.ok === false ? outcome.reason : outcome?.ok))
  const refusals = ['insufficient_balance', 'quota_exceeded', 'key_spending_limit', 'budget_exceeded']
  expect(reasons).toEqual([...refusals, undefined, undefined, undefined, undefined, true])
  for (const [n, actor] of [poor, full, limited, overspent].entries()) {
    const order = await orderOf(4 + n)
    expect(await transact(ledger.database, (tx) => createInstance(ledger.app, tx, actor, order))).toEqual(outcomes[n])
  }
  const after = await countRows()
  expect(Object.fromEntries(tables.map((table) => [table, (after[table] ?? 0) - (before[table] ?? 0)]))).toEqual({
    ...Object.fromEntries(tables.map((table) => [table, 1])),
    idempotency: 0,
  })
})

test('waits for nobody: an account or a machine that others have locked is left alone', async () => {
  const [one, two, three] = (await customers(3, usd('9'))) as [Actor, Actor, Actor]
  const [first, second, third] = [await orderOf(13), await orderOf(14), await orderOf(15)]
  const placed = await transact(ledger.database, async (tx) => {
    await sql`select 1 from ledger_account where account_id = ${one.accountId} and kind = 'held' for update`.execute(
      tx.db,
    )
    await sql`select 1 from machine where id = 'node-14' for update`.execute(tx.db)
    return Promise.all([inBatch(one, first), inBatch(two, second), inBatch(three, third)])
  })
  expect(placed.map((rental) => rental?.ok)).toEqual([undefined, undefined, true])
})

test('keeps no other order waiting for a batch that is held up', async () => {
  const [one, two] = (await customers(2, usd('9'))) as [Actor, Actor]
  const [first, second] = [await orderOf(24), await orderOf(25)]
  const held = await transact(ledger.database, async (tx) => {
    await sql`select pg_advisory_xact_lock(hashtextextended('event:' || ${one.accountId}::text, 0))`.execute(tx.db)
    const waiting = inBatch(one, first)
    await expect.poll(() => countWaiting('advisory')).toBe(1)
    expect((await inBatch(two, second))?.ok).toBe(true)
    expect(await countWaiting('advisory')).toBe(1)
    return { waiting }
  })
  expect((await held.waiting)?.ok).toBe(true)
})

async function countWaiting(lock: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`select count(*)::integer as n from pg_locks l
    where l.locktype = ${lock} and not l.granted
      and l.database = (select oid from pg_database where datname = current_database())`.execute(ledger.database.db)
  return rows[0]?.n ?? -1
}

test('places several orders of one account together, as far as its money reaches', async () => {
  const actor = await customer(nanoUsdOf(PRICE * 4n))
  const orders = [await orderOf(26, 2), await orderOf(27, 1), await orderOf(28, 2), await orderOf(29, 1)]
  const outcomes = await Promise.all(orders.map((order, n) => inBatch(actor, order, `key ${n}`)))
  // The fourth would fit without the third, which is not placed; that is for the order alone to find out.
  expect(outcomes.map((outcome) => outcome?.ok)).toEqual([true, true, undefined, undefined])
  expect(await readBalances(ledger.database.db, actor.accountId)).toMatchObject({ available: PRICE, held: PRICE * 3n })
  expect(await transactionsOf(actor)).toHaveLength(1)
})

test('places several orders of one account together, as far as its quota reaches', async () => {
  const actor = await customer(usd('100'))
  const { db } = ledger.database
  await db.updateTable('account').set({ quota: '{"gpus":3}' }).where('id', '=', actor.accountId).execute()
  const orders = [await orderOf(30, 1), await orderOf(31, 2), await orderOf(32, 1)]
  const outcomes = await Promise.all(orders.map((order) => inBatch(actor, order)))
  expect(outcomes.map((outcome) => outcome?.ok)).toEqual([true, true, undefined])
  expect(await transactionsOf(actor)).toHaveLength(1)
})

async function transactionsOf(actor: Actor): Promise<unknown[]> {
  const { rows } = await sql`
    select distinct xmin::text from rental where account_id = ${actor.accountId}`.execute(ledger.database.db)
  return rows
}

test('refuses what the machine rules out with the reason of an order alone, unless its key may have a response', async () => {
  await transact(ledger.database, (tx) => changeMachine(tx, 'node-33', { gpusWithdrawn: [0, 1, 2, 3, 4, 5, 6] }))
  const actor = await customer(usd('100'))
  const past = addMs(ledger.clock.now(), -1)
  const impossible = [
    await orderOf(33, 2),
    { ...(await orderOf(34)), clusterName: 'elsewhere' },
    await orderOf(35, 1, { userData: '#!/bin/sh' }),
    await orderOf(36, 1, { autoTerminateAt: past }),
    await orderOf(37, 1, { maxCostPerHourUsd: usd('1.99') }),
  ]
  for (const order of impossible) {
    const alone = await transact(ledger.database, (tx) => createInstance(ledger.app, tx, actor, order))
    expect(alone.ok).toBe(false)
    expect(await inBatch(actor, order)).toEqual(alone)
    expect(await inBatch(actor, order, 'key')).toBeUndefined()
  }
})

test('refuses a batch with two orders for one machine', async () => {
  const actor = await customer(usd('9'))
  const spec = { gpuCount: 1, resources: { storageGb: 1 } } as never
  const term = { effectiveAt: ledger.clock.now(), costPerHour: PRICE, commitment: null } as never
  const guards = { autoTerminateAt: null, spendingLimit: null, maxCostPerHour: null }
  const order = (machineId: string) => ({
    payer: actor,
    price: PRICE,
    needsSshKey: false,
    order: {
      spec,
      term,
      guards,
      places: [{ clusterName: 'x', machines: [{ machineId, gpus: 1 }] }],
      summary: { gpus: '', where: '' },
      ssh: 'none' as const,
      mounts: [],
      stopAt: null,
      idle: null,
      secretNames: [],
      metadata: null,
      interruptible: null,
      interruption: null,
    },
  })
  const batch = transact(ledger.database, (tx) => placeTogether(tx, [order('node-16'), order('node-16')]))
  await expect(batch).rejects.toMatchObject({ code: 'P0001' })
})

test('sells no GPU twice and no money twice, however orders meet', async () => {
  const actors = await customers(6, usd('0.000001'))
  const rich = actors[0] as Actor
  const node = fc.integer({ min: 20, max: 23 })
  const orders = fc.array(fc.tuple(fc.integer({ min: 0, max: 5 }), node, fc.integer({ min: 1, max: 3 })), {
    minLength: 1,
    maxLength: 24,
  })
  await fc.assert(
    fc.asyncProperty(orders, fc.integer({ min: 0, max: 4 }), async (list, hours) => {
      if (hours > 0) await buy(ledger, rich.accountId, nanoUsdOf(PRICE * BigInt(hours)))
      const given = await Promise.all(list.map(([, machine, gpus]) => orderOf(machine, gpus)))
      await Promise.all(
        given.map(async (order, n) => {
          const actor = actors[list[n]?.[0] ?? 0] ?? rich
          if ((await inBatch(actor, order))?.ok === true || n % 3 > 0) return
          await transact(ledger.database, (tx) => createInstance(ledger.app, tx, actor, order))
        }),
      )
    }),
    { numRuns: 12 },
  )
  const verdict = await verifyLedger(ledger.app)
  expect(verdict.ok && verdict.value.checks.filter((check) => check.findings > 0)).toEqual([])
  const { available, held } = await readBalances(ledger.database.db, rich.accountId)
  const { rows } = await sql<{ price: NanoUsd }>`
    select t.cost_nano_per_hour as price from term t join rental r on r.id = t.rental_id
    where r.account_id = ${rich.accountId}`.execute(ledger.database.db)
  expect(held).toBe(sumUsd(rows.map(({ price }) => price)))
  expect(available >= 0n).toBe(true)
  expect(rows.length).toBeGreaterThan(0)
})
