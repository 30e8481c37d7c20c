/** The amounts that are booked for machines of other clouds, step by step as their provider lists them. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS, toDate } from '../base/instant.ts'
import { formatUsd, nanoUsdOf, sumUsd, usd } from '../base/money.ts'
import { tagOf } from '../domain/rental.ts'
import { transact } from '../store/platform/database.ts'
import { insertProviderAccount } from '../store/provider/provider-account.ts'
import type { BillingTerms, Driver } from '../drivers/driver.ts'
import { openAccount, openTestLedger, startRental, type TestLedger } from '../../test/harness/ledger.ts'
import { verifyLedger } from '../app/money/ledger-verify.ts'
import { recordPurchases, settlePurchases } from './purchases.ts'

let ledger: TestLedger
let actor: Awaited<ReturnType<typeof openAccount>>

beforeAll(async () => {
  ledger = await openTestLedger()
  actor = await openAccount(ledger, 'ada', usd('100000'))
  await transact(ledger.database, (tx) =>
    insertProviderAccount(tx, {
      id: 'prv_main',
      driver: 'verda',
      name: 'main',
      base_url: 'https://example.com',
      credentials_sealed: '',
      regions: {},
      markup_bp: null,
      floor_nano_per_gpu_hour: null,
      fixed_nano_per_gpu_hour: null,
      sells_below_cost: false,
      monthly_cap_nano: null,
      preference: 0,
    }),
  )
})
afterAll(() => ledger.close())

const byMinute: BillingTerms = { from: 'running', incrementMs: MINUTE_MS, minimumMs: 0 }
const byTenMinutes: BillingTerms = { from: 'create', incrementMs: 10 * MINUTE_MS, minimumMs: 10 * MINUTE_MS }
const byHour: BillingTerms = { from: 'create', incrementMs: HOUR_MS, minimumMs: 24 * HOUR_MS }

/** `[minutes, USD per hour]`: after so much time it is listed at this price. null: it is gone. `?`: no answer. */
type Step = readonly [minutes: number, perHour: string | null]

test.each<[promise: string, terms: BillingTerms, steps: readonly Step[], cost: string]>([
  [
    'an end at the instant of the start costs one increment',
    byMinute,
    [
      [0, '6'],
      [0, null],
    ],
    '0.1',
  ],
  [
    'a started minute costs a whole one',
    byMinute,
    [
      [0, '6'],
      [0.5, '6'],
      [1, null],
    ],
    '0.2',
  ],
  [
    'a boot is free where the bill begins with the run',
    byMinute,
    [
      [5, '0'],
      [0, '6'],
      [2, null],
    ],
    '0.2',
  ],
  [
    'a boot costs where the bill begins with the order',
    byTenMinutes,
    [
      [5, '6'],
      [15, null],
    ],
    '2',
  ],
  [
    'a minimum is billed in full',
    byTenMinutes,
    [
      [1, '6'],
      [1, null],
    ],
    '1',
  ],
  [
    'a day at least',
    byHour,
    [
      [1, '2'],
      [10, null],
    ],
    '48',
  ],
  [
    'a minimum is counted once, across changes of price',
    byTenMinutes,
    [
      [1, '6'],
      [1, '12'],
      [1, null],
    ],
    '1.8',
  ],
  [
    'a new price counts from when it is seen',
    byMinute,
    [
      [0, '6'],
      [30, '12'],
      [30, null],
    ],
    '9',
  ],
  [
    'a lower price too',
    byMinute,
    [
      [0, '12'],
      [30, '6'],
      [30, null],
    ],
    '9',
  ],
  [
    'a cloud that does not answer still bills',
    byMinute,
    [
      [0, '6'],
      [10, '?'],
      [10, '6'],
      [10, null],
    ],
    '3',
  ],
  [
    'what is left in the trash costs until it is gone',
    byTenMinutes,
    [
      [0, '6'],
      [60, '0.06'],
      [600, null],
    ],
    '6.6',
  ],
  [
    'nothing is booked for what is listed at no cost',
    byMinute,
    [
      [0, '0'],
      [10, null],
    ],
    '0',
  ],
])('%s', async (_, terms, steps, cost) => {
  const { app, clock, database } = ledger
  const id = await startRental(ledger, actor, { pricePerHour: usd('1') })
  const { nonce } = await database.db
    .updateTable('rental')
    .set({ create_asked_at: toDate(clock.now()) })
    .where('id', '=', id)
    .returning('nonce')
    .executeTakeFirstOrThrow()
  const machine = { externalId: `main/m-${id}`, tag: tagOf(app.installationId, 'rental', { id, nonce }) }
  const driver = { id: 'verda', providers: { billing: terms } } as Partial<Driver> as Driver
  for (const [minutes, perHour] of steps) {
    clock.advance(minutes * MINUTE_MS)
    const price = perHour === '?' ? {} : { cost: { ...terms, account: 'main', perHour: usd(perHour ?? '0') } }
    await recordPurchases(app, driver, 'rental', perHour === null ? [] : [{ ...machine, ...price }], clock.now())
    await settlePurchases(app).run(new AbortController().signal)
  }
  const booked = await database.db.selectFrom('provider_cost').select('cost_nano').where('rental_id', '=', id).execute()
  expect(formatUsd(sumUsd(booked.map(({ cost_nano }) => nanoUsdOf(cost_nano))))).toBe(formatUsd(usd(cost)))
  const verified = await verifyLedger(app)
  expect(verified.ok && verified.value.findings.filter(({ check }) => /purchase|cost/.test(check))).toEqual([])
})
