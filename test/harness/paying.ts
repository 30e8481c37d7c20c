/** A server that takes payments from a simulated Stripe, with a clock of the test and loops that it runs by hand. */
import type { App } from '../../src/app/app.ts'
import { MINUTE_MS } from '../../src/base/instant.ts'
import { usd, type NanoUsd } from '../../src/base/money.ts'
import { topUpAutomatically } from '../../src/reconcile/auto-top-up.ts'
import { catchUpOnEvents, settlePayments } from '../../src/reconcile/payments.ts'
import { verifyLedger } from '../../src/app/money/ledger-verify.ts'
import { readBalances } from '../../src/store/ledger/ledger.ts'
import { readHouse } from '../../src/store/ledger/ledger-verify.ts'
import { manualClock, type ManualClock } from '../sim/clock.ts'
import type { Json } from '../sim/stripe-object.ts'
import { StripeSimulator } from '../sim/stripe-server.ts'
import { testServer, type Call, type TestServer, type TestServerOptions } from './server.ts'

export interface Paying extends TestServer {
  readonly clock: ManualClock
  readonly stripe: StripeSimulator
  /** Runs the loop until nothing is due. */
  settle(): Promise<void>
  /** Starts automatic top-ups that are due, and carries them out. */
  topUpNow(): Promise<void>
  /** Reads the messages that were not delivered, and handles them. */
  catchUp(): Promise<void>
  /** Delivers every message so far that was not delivered, in this order. */
  deliver(order?: (events: Json[]) => Json[]): Promise<void>
  available(accountId: string): Promise<NanoUsd>
  house(kind: string): Promise<bigint>
  /** What the recount of the whole ledger finds wrong. */
  findings(): Promise<unknown[]>
  alerts(): Promise<string[]>
}

const MAX_PASSES = 20

export async function startPaying(options: Omit<TestServerOptions, 'clock' | 'runLoops'> & { isLive?: boolean } = {}) {
  const clock = manualClock()
  const stripe = await StripeSimulator.open(clock, { isLive: options.isLive ?? false })
  const server = await testServer({ ...options, clock, runLoops: false, env: { ...stripe.env, ...options.env } })
  return payingOn(server, clock, stripe)
}

export function payingOn(server: TestServer, clock: ManualClock, stripe: StripeSimulator): Paying {
  const { app } = server
  const { signal } = new AbortController()
  const delivered = new Set<unknown>()
  const settle = async (): Promise<void> => {
    for (let n = 0; n < MAX_PASSES; n += 1) {
      if (!(await settlePayments(app, processorOf(app)).run(signal)) && !(await isDue(app))) return
    }
  }
  return {
    ...server,
    clock,
    stripe,
    settle,
    topUpNow: async () => {
      await topUpAutomatically(app, processorOf(app)).run(signal)
      await settle()
    },
    catchUp: async () => {
      clock.advance(5 * MINUTE_MS)
      await catchUpOnEvents(app, processorOf(app)).run(signal)
      await settle()
    },
    deliver: async (order = (events) => events) => {
      for (const event of order(stripe.events.filter(({ id }) => !delivered.has(id)))) {
        delivered.add(event['id'])
        const status = await stripe.deliver(server.url, event)
        if (status !== 200) throw new Error(`the message was answered with ${status}`)
      }
    },
    available: async (accountId) => (await readBalances(app.database.db, accountId)).available,
    house: async (kind) => (await readHouse(app.database.db)).get(kind) ?? 0n,
    findings: async () => {
      const verdict = await verifyLedger(app)
      return verdict.ok ? verdict.value.findings : [verdict]
    },
    alerts: async () => {
      const rows = await app.database.db.selectFrom('payment_alert').select(['kind', 'subject']).orderBy('id').execute()
      return rows.map(({ kind, subject }) => `${kind} ${subject}`)
    },
    close: async () => {
      await server.close()
      await stripe.close()
    },
  }
}

export function processorOf(app: App) {
  if (app.processor === undefined) throw new Error('the server takes no payments')
  return app.processor
}

/** Whether something is due now: a postponed row is not. */
async function isDue({ database, clock }: App): Promise<boolean> {
  const now = new Date(clock.now())
  for (const table of ['processor_event', 'payment', 'payment_refund', 'payout', 'payout_account'] as const) {
    const row = await database.db
      .selectFrom(table)
      .select('due_at')
      .where('due_at', '<=', now as never)
      .executeTakeFirst()
    if (row !== undefined) return true
  }
  return false
}

/** Asks for a page to pay on. */
export async function topUp(call: Call, amountUsd = '100', body: object = {}) {
  const reply = await call('POST', '/v2/billing/top-ups', { amountUsd, ...body })
  if (reply.status !== 200) throw new Error(`no top-up: ${JSON.stringify(reply.body)}`)
  return reply.body as { id: string; url: string | null; state: string }
}

export async function rowOf(app: App, id: string) {
  return app.database.db.selectFrom('payment').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
}

/** Pays a top-up of the account on its page. Returns the session and the intent. */
export async function payTopUp(paying: Paying, call: Call, amountUsd = '100', changes: Json = {}) {
  const { id } = await topUp(call, amountUsd)
  const sessionId = (await rowOf(paying.app, id)).session_id ?? ''
  const intent = paying.stripe.pay(sessionId, undefined, changes)
  return { id, sessionId, intentId: String(intent['id']) }
}

export const HUNDRED = usd('100')
