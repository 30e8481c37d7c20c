/** `place_orders`: what it writes, why it refuses, and in which order. */
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMs, DAY_MS, formatInstant, toDate } from '../../base/instant.ts'
import { nanoUsdOf, usd, type NanoUsd } from '../../base/money.ts'
import type { Order } from '../../domain/order.ts'
import { mockFleet } from '../../drivers/mock/fleet.ts'
import { openAccount, openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import type { Actor } from '../app.ts'
import { verifyLedger } from '../money/ledger-verify.ts'
import { transact } from '../../store/platform/database.ts'
import { changeMachine, saveInventory } from '../../store/machine/machine.ts'
import { placeAlone, placeTogether, type OrderAnswer, type PlacedOrder } from '../../store/rental/order.ts'

const PRICE = usd('2')
const TERM_TOTAL = usd('30')
const SSH_KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f'
const OTHER_KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB8eHRwbGhkYFxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA'
const MACHINES = 24
let ledger: TestLedger
let opened = 0

beforeAll(async () => {
  ledger = await openTestLedger()
  const example = mockFleet().find((one) => one.offering === 'marketplace' && one.gpusTotal === 8)
  if (example === undefined) throw new Error('the simulated fleet has changed')
  const sale = {
    supplierId: null,
    simulation: 'machine',
    price: PRICE,
    offerId: null,
    soldWhole: false,
    cost: null,
  } as const
  const machines = Array.from({ length: MACHINES }, (_, n) => ({ ...example, ...sale, id: `node-${n}` }))
  await transact(ledger.database, (tx) => saveInventory(tx, 'mock', machines, tx.clock.now()))
  await transact(ledger.database, (tx) => changeMachine(tx, 'node-0', { gpusWithdrawn: [0, 1, 2, 3, 4, 5, 6, 7] }))
})
afterAll(() => ledger.close())

const place = (...ids: string[]) => ({ clusterName: 'one', machines: ids.map((machineId) => ({ machineId, gpus: 1 })) })

function orderAt(places: Order['places'], changes: Partial<Order> & { total?: NanoUsd; limit?: NanoUsd } = {}): Order {
  const { total, limit = null, ...others } = changes
  const now = ledger.clock.now()
  const endsAt = addMs(now, DAY_MS)
  const reservation = { endsAt, periodDays: 1, discountPercentage: 10, originalCostPerHour: PRICE }
  const rates = [{ days: 0, perHour: PRICE }]
  return {
    spec: {
      kind: 'container',
      label: 'training',
      region: 'here',
      gpuType: null,
      gpuCount: places[0]?.machines.length ?? 1,
      networkType: 'ethernet',
      driver: 'mock',
      monitoringEnabled: null,
      resources: { storageGb: 5 },
    } as never,
    term: {
      termType: total === undefined ? 'on-demand' : 'reserved',
      effectiveAt: now,
      costPerHour: PRICE,
      reservation: total === undefined ? null : reservation,
      commitment: total === undefined ? null : { total, perHour: PRICE, startsAt: now, endsAt, rates },
      convertOnExpiry: total === undefined ? null : true,
    },
    guards: { autoTerminateAt: null, spendingLimit: limit, maxCostPerHour: null },
    places,
    summary: { gpus: '', where: '' },
    ssh: { extraKey: undefined },
    mounts: [],
    stopAt: null,
    idle: null,
    secretNames: [],
    metadata: null,
    interruptible: null,
    interruption: null,
    ...others,
  }
}

/** The reasons, in the order in which they are checked. */
const reasons = [
  'quota_exceeded',
  'no_ssh_key',
  'limit_below_term',
  'key_spending_limit',
  'budget_exceeded',
  'insufficient_balance',
  'no_capacity',
] as const
type Reason = (typeof reasons)[number]

/** An account to which all of these apply, and no others. */
async function openPayer(faults: readonly Reason[]): Promise<Actor> {
  opened += 1
  const name = `p${opened}`
  const { db } = ledger.database
  const actor = await openAccount(ledger, name, usd(faults.includes('insufficient_balance') ? '0.01' : '100'))
  if (faults.includes('quota_exceeded'))
    await db.updateTable('account').set({ quota: '{"gpus":0}' }).where('id', '=', actor.accountId).execute()
  if (!faults.includes('no_ssh_key')) {
    const key = { id: `ssh_${name}`, name: 'laptop', public_key: SSH_KEY, fingerprint: `SHA256:${name}` }
    const row = { ...key, account_id: actor.accountId, created_at: toDate(ledger.clock.now()) }
    await db.insertInto('ssh_key').values(row).execute()
  }
  if (faults.includes('key_spending_limit'))
    await sql`update api_key set total_limit_nano = 1 where public_id = ${actor.keyId}`.execute(db)
  if (faults.includes('budget_exceeded'))
    await sql`insert into budget (id, account_id, name, scope, scope_value, amount_nano, alerts, action, month, exceeded_at, created_at)
      select ${`bgt_${name}`}, ${actor.accountId}, 'b', 'label', 'training', 7, '{}', 'block',
        date_trunc('month', t at time zone 'UTC')::date, t, t
      from (select ${toDate(ledger.clock.now())}::timestamptz as t) x`.execute(db)
  return actor
}

const details: Partial<Record<Reason, object>> = {
  quota_exceeded: { quota: 0, used: 0 },
  key_spending_limit: { left: '1' },
  budget_exceeded: { name: 'b', amount: '7' },
}
const tables = ['rental', 'term', 'commitment', 'posting', 'transfer', 'hold', 'gpu_claim', 'attachment'] as const

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

const alone = (payer: Actor, order: Order, needsSshKey = true) =>
  transact(ledger.database, (tx) => placeAlone(tx, { payer, order, needsSshKey }))

const together = (payer: Actor, orders: readonly Order[]): Promise<Array<OrderAnswer<PlacedOrder> | undefined>> =>
  transact(ledger.database, (tx) =>
    placeTogether(
      tx,
      orders.map((order) => ({ payer, order, needsSshKey: true, price: PRICE })),
    ),
  )

describe('a reason', () => {
  test('is the first that applies, and then nothing is written', async () => {
    let machine = 0
    await fc.assert(
      fc.asyncProperty(fc.subarray([...reasons]), async (faults) => {
        const payer = await openPayer(faults)
        machine = (machine % 10) + 1
        const places = [place(faults.includes('no_capacity') ? 'node-0' : `node-${machine}`)]
        const order = orderAt(places, {
          total: TERM_TOTAL,
          limit: usd(faults.includes('limit_below_term') ? '29' : '30'),
        })
        const before = await countRows()
        const answer = await alone(payer, order)
        const [first] = faults
        expect(answer.outcome).toBe(first ?? 'placed')
        if (first === undefined) return
        expect(answer).toEqual({ outcome: first, detail: details[first] ?? null })
        expect(await countRows()).toEqual(before)
      }),
      { numRuns: 40, examples: [...reasons.map((reason): [Reason[]] => [[reason]]), [[]], [[...reasons]]] },
    )
  })

  test('is the same in a batch, except that what concerns the machine is left to the order alone', async () => {
    const inBatch = reasons.filter((reason) => reason !== 'limit_below_term')
    for (const reason of inBatch) {
      const payer = await openPayer([reason])
      const order = orderAt([place(reason === 'no_capacity' ? 'node-0' : 'node-11')])
      const [answer] = await together(payer, [order])
      const expected = { outcome: reason, detail: details[reason] ?? null }
      expect(answer).toEqual(reason === 'no_capacity' ? undefined : expected)
    }
  })

  test('in a batch is final only for the order by itself', async () => {
    const payer = await openPayer([])
    await sql`update account set quota = '{"gpus":2}' where id = ${payer.accountId}`.execute(ledger.database.db)
    const large = orderAt([place('node-12')])
    const orders = [
      orderAt([place('node-13')]),
      { ...large, spec: { ...large.spec, gpuCount: 3 } },
      orderAt([place('node-14')]),
    ]
    const answers = await together(payer, orders)
    expect(answers.map((answer) => answer?.outcome)).toEqual(['placed', 'quota_exceeded', undefined])
  })

  test('is no longer a price that has changed since the order was checked', async () => {
    const payer = await openPayer([])
    const order = orderAt([place('node-15')])
    const answers = await transact(ledger.database, (tx) =>
      placeTogether(tx, [{ payer, order, needsSshKey: true, price: nanoUsdOf(PRICE - 1n) }]),
    )
    expect(answers).toEqual([undefined])
  })
})

test('an order is written with its term, hold, commitment, claims, options and keys', async () => {
  const payer = await openPayer([])
  const now = ledger.clock.now()
  const changes = {
    total: TERM_TOTAL,
    ssh: { extraKey: OTHER_KEY },
    stopAt: addMs(now, DAY_MS),
    idle: { minutes: 30, action: 'stop' } as unknown as Order['idle'],
    secretNames: ['token'],
    metadata: { team: 'a' },
  }
  const answer = await alone(payer, orderAt([place('node-16', 'node-17')], changes))
  if (answer.outcome !== 'placed') throw new Error(answer.outcome)
  const { rental } = answer
  expect(rental).toMatchObject({
    account_id: payer.accountId,
    person_id: payer.personId,
    api_key_id: payer.keyId,
    status: 'Pending',
    cluster_name: 'one',
    label: 'training',
    gpu_count: 2,
    convert_on_expiry: true,
    stop_at: changes.stopAt,
    idle: changes.idle,
    secret_names: ['token'],
    user_metadata: { team: 'a' },
    due_at: now,
  })
  expect(rental.spec).toMatchObject({
    name: rental.name,
    clusterName: 'one',
    sshKeys: [SSH_KEY, OTHER_KEY],
    monitoringEnabled: false,
    nodes: [
      { machineId: 'node-16', gpuIndexes: [0] },
      { machineId: 'node-17', gpuIndexes: [0] },
    ],
  })
  const { rows } = await sql<{ all: unknown }>`select jsonb_build_object(
      'term', (select to_jsonb(t) - 'effective_at' from term t where t.rental_id = r.id),
      'commitment', (select jsonb_build_array(c.total_nano, c.rates) from commitment c where c.rental_id = r.id),
      'hold', (select jsonb_build_array(h.account_id, h.amount_nano) from hold h where h.key = 'rental:' || r.id),
      'posting', (select jsonb_agg(jsonb_build_array(p.kind, f.kind, o.kind, t.amount_nano)) from posting p
         join transfer t on t.posting_id = p.id join ledger_account f on f.id = t.from_id join ledger_account o on o.id = t.to_id
         where p.key = 'rental:' || r.id || ':hold'),
      'balance', (select jsonb_object_agg(l.kind, l.balance_nano) from ledger_account l where l.account_id = r.account_id),
      'claim', (select jsonb_agg(jsonb_build_array(c.machine_id, c.gpu_index) order by c.machine_id)
         from gpu_claim c where c.rental_id = r.id),
      'machine', (select jsonb_agg(jsonb_build_array(m.gpus_free, m.gpus_claimed, m.disk_claimed_gb))
         from machine m where m.id in ('node-16', 'node-17'))
    ) as all from rental r where r.id = ${rental.id}`.execute(ledger.database.db)
  expect(rows[0]?.all).toEqual({
    term: {
      rental_id: rental.id,
      n: 1,
      term_type: 'reserved',
      cost_nano_per_hour: 2_000_000_000,
      reservation_ends_at: expect.stringContaining(formatInstant(addMs(now, DAY_MS)).slice(0, 19)),
      term_period_days: 1,
      discount_percentage: 10,
      original_cost_nano: 2_000_000_000,
      warned_days: null,
      closed: false,
    },
    commitment: [30_000_000_000, [{ days: 0, nanoPerHour: '2000000000' }]],
    hold: [payer.accountId, 30_000_000_000],
    posting: [['hold', 'available', 'held', 30_000_000_000]],
    balance: { available: 70_000_000_000, held: 30_000_000_000, earnings: 0 },
    claim: [
      ['node-16', 0],
      ['node-17', 0],
    ],
    machine: [
      [7, 1, 5],
      [7, 1, 5],
    ],
  })
})

test('a reserved order draws from the credit line what the balance lacks, and an order on demand nothing', async () => {
  const payer = await openPayer([])
  const { db } = ledger.database
  await sql`insert into credit_line (account_id, line_nano) values (${payer.accountId}, ${usd('50')})`.execute(db)
  const standing = async () => {
    const { rows } = await sql<{ kind: string; nano: NanoUsd }>`
      select kind, balance_nano as nano from ledger_account where account_id = ${payer.accountId} and kind <> 'earnings'
      union all select 'used', used_nano from credit_line where account_id = ${payer.accountId}`.execute(db)
    return Object.fromEntries(rows.map(({ kind, nano }) => [kind, nano]))
  }
  const before = await countRows()
  const tooMuch = await alone(payer, orderAt([place('node-18')], { total: nanoUsdOf(usd('150') + 1n) }))
  expect(tooMuch.outcome).toBe('insufficient_balance')
  // More than 64 bits hold.
  expect((await alone(payer, orderAt([place('node-18')], { total: nanoUsdOf(10n ** 20n) }))).outcome).toBe(
    'insufficient_balance',
  )
  expect((await alone(payer, orderAt([place('node-0')], { total: usd('150') }))).outcome).toBe('no_capacity')
  expect([await countRows(), await standing()]).toEqual([before, { available: usd('100'), held: 0n, used: 0n }])
  expect((await alone(payer, orderAt([place('node-18')], { total: usd('130') }))).outcome).toBe('placed')
  expect(await standing()).toEqual({ available: 0n, held: usd('130'), used: usd('30') })
  expect((await alone(payer, orderAt([place('node-18')]))).outcome).toBe('insufficient_balance')
})

test('promise 48: an account in debt orders nothing, not on credit and not for nothing; others in its batch do', async () => {
  const [debtor, other] = [await openPayer([]), await openPayer([])]
  const { db } = ledger.database
  await sql`insert into credit_line (account_id, line_nano) values (${debtor.accountId}, ${usd('50')})`.execute(db)
  const owe = (nano: bigint) =>
    sql`insert into account_debt (account_id, owed_nano) values (${debtor.accountId}, ${nano.toString()}::bigint)
      on conflict (account_id) do update set owed_nano = excluded.owed_nano`.execute(db)
  await owe(1n)
  const before = await countRows()
  const free = orderAt([place('node-18')])
  const orders = [
    orderAt([place('node-18')]),
    orderAt([place('node-18')], { total: usd('30') }),
    { ...free, term: { ...free.term, costPerHour: nanoUsdOf(0n) } },
  ]
  for (const order of orders) expect((await alone(debtor, order)).outcome).toBe('account_in_debt')
  expect((await together(debtor, [orderAt([place('node-18')])])).map((one) => one?.outcome)).toEqual([
    'account_in_debt',
  ])
  expect(await countRows()).toEqual(before)
  const batch = [debtor, other].map((payer, n) => ({
    payer,
    order: orderAt([place(`node-${18 + n}`)]),
    needsSshKey: true,
    price: PRICE,
  }))
  const answers = await transact(ledger.database, (tx) => placeTogether(tx, batch))
  expect(answers.map((one) => one?.outcome)).toEqual(['account_in_debt', 'placed'])
  await owe(0n)
  expect((await alone(debtor, orderAt([place('node-18')]))).outcome).toBe('placed')
})

test('an order takes the first place with room on all machines, and costs nothing on the others', async () => {
  const payer = await openPayer([])
  const answer = await alone(
    payer,
    orderAt([place('node-19', 'node-0'), place('node-21', 'node-20'), place('node-22', 'node-23')]),
  )
  if (answer.outcome !== 'placed') throw new Error(answer.outcome)
  expect(answer.rental.spec.nodes.map(({ machineId }) => machineId)).toEqual(['node-21', 'node-20'])
  expect((await alone(payer, orderAt([]))).outcome).toBe('no_capacity')
})

test('a machine without logins gets no keys; one that needs none is rented without', async () => {
  const without = await openPayer(['no_ssh_key'])
  expect((await alone(without, orderAt([place('node-19')]), false)).outcome).toBe('placed')
  const keyOf = async (payer: Actor, ssh: Order['ssh']) => {
    const answer = await alone(payer, orderAt([place('node-19')], { ssh }))
    return answer.outcome === 'placed' ? answer.rental.spec.sshKeys : answer.outcome
  }
  expect(await keyOf(without, { extraKey: OTHER_KEY })).toEqual([OTHER_KEY])
  expect(await keyOf(without, 'none')).toEqual([])
  const owner = await openPayer([])
  expect(await keyOf(owner, 'none')).toEqual([])
  expect(await keyOf(owner, { extraKey: SSH_KEY })).toEqual([SSH_KEY])
})

test('an order waits for another order of its account, and sees what that one left', async () => {
  const payer = await openPayer([])
  const second = await transact(ledger.database, async (tx) => {
    const order = orderAt([place('node-22')], { total: usd('99') })
    expect((await placeAlone(tx, { payer, order, needsSshKey: true })).outcome).toBe('placed')
    const waiting = alone(payer, orderAt([place('node-23')]))
    await expect.poll(countWaiting).toBe(1)
    return { waiting }
  })
  expect((await second.waiting).outcome).toBe('insufficient_balance')
})

async function countWaiting(): Promise<number> {
  const { rows } = await sql<{ n: number }>`select count(*)::integer as n from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(ledger.database.db)
  return rows[0]?.n ?? -1
}

test('the ledger adds up', async () => {
  const verdict = await verifyLedger(ledger.app)
  expect(verdict.ok && verdict.value.checks.filter((check) => check.findings > 0)).toEqual([])
})
