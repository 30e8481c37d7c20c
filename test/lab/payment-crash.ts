/**
 * The crash run of payments. A child process is a whole server on a database that stays up, with a simulator of Stripe in
 * this process. It is killed (SIGKILL) at its calls of Stripe, before or after they had their effect, and at random moments,
 * while customers pay, banks dispute, operators refund and suppliers are paid, while calls fail, and while messages arrive late, twice, in any
 * order or never. The clock of all parts runs fast.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { randomInt } from 'node:crypto'
import { mkdtemp, readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { HOUR_MS, instantOf, systemClock, type Clock } from '../../src/base/instant.ts'
import { openDatabase, type Database } from '../../src/store/platform/database.ts'
import { testDatabase } from '../harness/database.ts'
import { fastClock } from '../harness/fast-clock.ts'
import { removeFolder } from '../harness/leftover.ts'
import { caller, type Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import type { StripeFault } from '../sim/stripe-object.ts'
import { StripeSimulator } from '../sim/stripe-server.ts'
import { bundleChild, killChild, startChild } from './child-program.ts'
import { runPaymentServer } from './payment-crash-child.ts'
import { startPaymentLoad } from './payment-load.ts'
import { openSuppliers, payoutActs, payoutEnv } from './payout-load.ts'

export interface PaymentCrash {
  readonly stripe: StripeSimulator
  readonly database: Database
  readonly operator: Call
  /** Payments that customers got an answer about, by its idempotency key. */
  readonly answered: ReadonlyMap<string, string>
  readonly messages: { readonly lost: number; readonly accepted: number }
  close(): Promise<void>
}

const ACCOUNTS = 3
const WORKERS = 4
const SETTLE_MS = 90_000
/** Calls of Stripe that fail, in percent. */
const FAULTS = 6
/** It is killed after so many calls, or after this time. */
const MAX_CALLS = 20
const MAX_LIFE_MS = 3_000

export async function crashPayments(kills: number): Promise<PaymentCrash> {
  const world = await openWorld()
  const { stripe } = world
  try {
    await world.start()
    const accounts = await openAccounts(world.operator)
    stripe.taxPercent = 19
    stripe.chaos = faultOf
    const suppliers = await openSuppliers(world)
    const payments = { stripe, accounts, operator: world.operator, url: world.url }
    const load = startPaymentLoad(payments, WORKERS, payoutActs(world, suppliers))
    for (let n = 0; n < kills; n += 1) {
      // With few kills, each still meets something that is under way.
      const { size } = load.answered
      const { accepted } = load.messages()
      await waitFor('a top-up and a message', () => load.answered.size > size && load.messages().accepted > accepted)
      await killDuringWork(world.child(), stripe)
      await world.start()
    }
    await load.stop()
    stripe.chaos = undefined
    stripe.connect.funds = Number.POSITIVE_INFINITY
    for (const { id, status } of stripe.all('checkout.session')) if (status === 'open') stripe.expire(String(id))
    await killChild(world.child())
    // Calls that failed several times are repeated hourly.
    world.skip(HOUR_MS)
    const undelivered = stripe.events.length
    await world.start()
    await waitUntilSettled(world, undelivered)
    return { ...world, answered: load.answered, messages: load.messages() }
  } catch (error) {
    await world.close()
    throw error
  }
}

interface World extends Pick<PaymentCrash, 'stripe' | 'database' | 'operator' | 'close'> {
  readonly url: () => string
  child(): ChildProcess
  start(): Promise<void>
  skip(ms: number): void
}

async function openWorld(): Promise<World> {
  const epoch = systemClock.now()
  let aheadMs = 0
  const clock: Clock = { now: () => instantOf(fastClock(epoch).now() + aheadMs) }
  const program = await bundleChild('payment-crash-child.ts', runPaymentServer)
  const testData = await testDatabase()
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-payments-'))
  const stripe = await StripeSimulator.open(clock)
  const database = openDatabase({ url: testData.url, clock, poolSize: 4 })
  const env = {
    ...stripe.env,
    ...payoutEnv,
    BERTH_PORT: '0',
    BERTH_DATA_DIR: folder,
    DATABASE_URL: testData.url,
    BERTH_DRIVERS: '',
    BERTH_LOCAL_ENGINES: 'false',
    BERTH_DEFAULT_MODELS: 'none',
    BERTH_ALLOW_PRIVATE_ADDRESSES: 'true',
    BERTH_DATABASE_CONNECTIONS: '8',
  }
  let child: ChildProcess | undefined
  let url = ''
  let key = ''
  return {
    stripe,
    database,
    operator: (...request) => caller(url, key)(...request),
    url: () => url,
    child: () => {
      if (child === undefined) throw new Error('the server was never started')
      return child
    },
    start: async () => {
      const started = await startChild(program, [JSON.stringify(env), String(epoch), String(aheadMs)])
      child = started.child
      url = String(started.message)
      key ||= (await readFile(path.join(folder, 'operator.key'), 'utf8')).trim()
    },
    skip: (ms) => void (aheadMs += ms),
    close: async () => {
      if (child !== undefined) await killChild(child)
      await stripe.close()
      await database.close()
      await testData.drop()
      await removeFolder(folder)
    },
  }
}

async function openAccounts(operator: Call): Promise<Array<{ id: string; key: string }>> {
  const accounts: Array<{ id: string; key: string }> = []
  for (let n = 1; n <= ACCOUNTS; n += 1) {
    const { body } = await operator('POST', '/v2/operator/accounts', {
      name: `Customer ${n}`,
      ownerEmail: `customer-${n}@example.test`,
    })
    accounts.push({ id: body.account.id as string, key: body.key as string })
  }
  return accounts
}

function faultOf(): StripeFault | undefined {
  if (randomInt(100) >= FAULTS) return undefined
  return randomInt(2) === 0 ? 'before' : 'after'
}

async function killDuringWork(child: ChildProcess, stripe: StripeSimulator): Promise<void> {
  const exited = once(child, 'exit')
  let calls = randomInt(1, MAX_CALLS)
  stripe.chaos = () => {
    calls -= 1
    if (calls > 0) return faultOf()
    stripe.chaos = faultOf
    child.kill('SIGKILL')
    return randomInt(2) === 0 ? 'before' : 'after'
  }
  // Also between calls, such as in a transaction.
  const timer = setTimeout(() => child.kill('SIGKILL'), randomInt(50, MAX_LIFE_MS))
  await exited
  clearTimeout(timer)
  stripe.chaos = faultOf
}

/**
 * Waits until every message is handled and nothing is under way. Of the messages so far, those that were never delivered
 * must come from Stripe's list; the next are delivered.
 */
async function waitUntilSettled({ database: { db }, stripe, url }: World, undelivered: number): Promise<void> {
  let rest = ''
  let next = undelivered
  await waitFor(
    () => `everything to settle; open: ${rest}`,
    async () => {
      for (; next < stripe.events.length; next += 1) await stripe.deliver(url(), stripe.events[next] ?? {})
      const payments = await db.selectFrom('payment').selectAll().where('state', '=', 'open').execute()
      const refunds = await db.selectFrom('payment_refund').selectAll().where('due_at', 'is not', null).execute()
      const payouts = await db.selectFrom('payout').selectAll().where('state', 'in', ['approved', 'sent']).execute()
      const events = await db.selectFrom('processor_event').select(['id', 'type', 'handled_at', 'last_error']).execute()
      const handled = new Set(events.flatMap(({ id, handled_at: at }) => (at === null ? [] : [id])))
      const missing = stripe.events.filter(({ id }) => !handled.has(String(id)))
      const errors = events.flatMap(({ type, last_error: error }) => (error === null ? [] : [`${type}: ${error}`]))
      rest = `${payments.length} payments, ${refunds.length} refunds, ${payouts.length} payouts, ${missing.length} messages; ${errors.join('; ')}`
      return payments.length + refunds.length + payouts.length + missing.length === 0
    },
    SETTLE_MS,
  )
}
