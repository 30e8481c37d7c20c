/**
 * Customers who pay, banks that dispute, and an operator who refunds, all against one simulator of Stripe, and the messages
 * that it sends about it. Each create is repeated with its idempotency key until it is answered.
 */
import { randomBytes, randomInt } from 'node:crypto'
import type { Reply } from '../harness/exchange.ts'
import { caller, type Call } from '../harness/server.ts'
import { cards, type Json } from '../sim/stripe-object.ts'
import type { StripeSimulator } from '../sim/stripe-server.ts'

export interface PaymentWorld {
  readonly stripe: StripeSimulator
  readonly accounts: ReadonlyArray<{ readonly id: string; readonly key: string }>
  readonly operator: Call
  /** The server's address; it changes with each start. */
  readonly url: () => string
}

export interface PaymentLoad {
  /** Top-ups by idempotency key. */
  readonly answered: ReadonlyMap<string, string>
  /** Messages that were never sent, and those that the server has accepted. */
  messages(): { readonly lost: number; readonly accepted: number }
  stop(): Promise<void>
}

/** Between two tries while the server is away, and between two acts. */
const AWAY_MS = 100
const PAUSE_MS = 15
/** Messages that are lost, and that come twice, in percent. */
const LOST = 20
const TWICE = 30
const MAX_DELAY_MS = 1_500

/** `more`: what else happens meanwhile. */
export function startPaymentLoad(world: PaymentWorld, workers: number, more: readonly Act[]): PaymentLoad {
  const answered = new Map<string, string>()
  const acts = [...actsOf(world, answered), ...more]
  const deliveries = new Deliveries(world)
  let stopping = false
  const worker = async (): Promise<void> => {
    while (!stopping) {
      await acts[randomInt(acts.length)]?.()
      await pause(PAUSE_MS)
      deliveries.sendNew()
    }
  }
  const running = Array.from({ length: workers }, worker)
  return {
    answered,
    messages: () => ({ lost: deliveries.lost, accepted: deliveries.accepted }),
    stop: async () => {
      stopping = true
      await Promise.all(running)
      await deliveries.end()
    },
  }
}

type Act = () => Promise<void> | void

function actsOf(world: PaymentWorld, answered: Map<string, string>): Act[] {
  const { stripe } = world
  const topUp = async (): Promise<void> => {
    const { key } = pick(world.accounts)
    const send = (...request: Parameters<Call>) => caller(world.url(), key)(...request)
    const body = { amountUsd: String(randomInt(5, 200)), saveCard: randomInt(2) === 0 }
    const [idempotencyKey, reply] = await sendUntilAnswered(send, '/v2/billing/top-ups', body)
    if (reply.status === 200) answered.set(idempotencyKey, reply.body.id as string)
    else if (reply.body.reason !== 'too_many_open_payments') throw new Error(`no top-up: ${JSON.stringify(reply.body)}`)
  }
  const pay: Act = () => {
    const session = pickFrom(stripe.all('checkout.session').filter(({ status }) => status === 'open'))
    if (session === undefined) return
    if (randomInt(8) === 0) stripe.expire(String(session['id']))
    else stripe.pay(String(session['id']), randomInt(5) === 0 ? cards.declined : cards.good)
  }
  const refund = async (): Promise<void> => {
    const session = pickFrom(stripe.all('checkout.session').filter(({ status }) => status === 'complete'))
    if (session === undefined) return
    const body = { amountUsd: String(randomInt(1, 60)), reason: 'crash suite' }
    const id = String(session['client_reference_id'])
    await sendUntilAnswered(world.operator, `/v2/operator/payments/${id}/refund`, body)
  }
  const spend = async (): Promise<void> => {
    const body = { amountUsd: `-${randomInt(1, 100)}`, reason: 'spent' }
    await sendUntilAnswered(world.operator, `/v2/operator/accounts/${pick(world.accounts).id}/adjust`, body)
  }
  const failRefund: Act = () => {
    const refunds = stripe.all('refund').filter(({ status }) => status === 'succeeded')
    if (refunds.length > 0 && randomInt(4) === 0) stripe.failRefund(String(pick(refunds)['id']))
  }
  return [topUp, topUp, topUp, pay, pay, pay, pay, refund, refund, spend, failRefund, () => dispute(stripe)]
}

/** Disputes a payment, or takes a dispute one step further. */
function dispute(stripe: StripeSimulator): void {
  const disputes = stripe.all('dispute')
  const open = disputes.filter(({ status }) => String(status).endsWith('needs_response'))
  if (open.length > 0 && randomInt(2) === 0) {
    const { id, status } = pick(open)
    if (status === 'needs_response') stripe.closeDispute(String(id), randomInt(2) === 0 ? 'won' : 'lost')
    else if (randomInt(2) === 0) stripe.withdraw(String(id))
    else stripe.closeDispute(String(id), 'warning_closed')
    return
  }
  const disputed = new Set(disputes.map(({ payment_intent: intent }) => intent))
  const intent = pickFrom(
    stripe.all('payment_intent').filter(({ id, status }) => status === 'succeeded' && !disputed.has(id)),
  )
  const cents = intent === undefined ? 0 : restOf(stripe, intent)
  if (intent === undefined || cents === 0) return
  const part = randomInt(2) === 0 ? cents : randomInt(1, cents + 1)
  stripe.dispute(String(intent['id']), { cents: part, ...(randomInt(3) === 0 ? { inquiry: true } : {}) })
}

/** Nobody disputes what has come back. */
function restOf(stripe: StripeSimulator, intent: Json): number {
  const refunds = stripe.all('refund').filter((one) => one['payment_intent'] === intent['id'])
  return refunds
    .filter(({ status }) => status !== 'failed')
    .reduce((rest, { amount }) => rest - (amount as number), intent['amount_received'] as number)
}

async function sendUntilAnswered(send: Call, pathname: string, body: object): Promise<[string, Reply]> {
  const key = randomBytes(8).toString('hex')
  for (;;) {
    const reply = await send('POST', pathname, body, { 'Idempotency-Key': key }).catch(() => undefined)
    if (reply !== undefined && reply.status < 500 && reply.status !== 429) return [key, reply]
    await pause(AWAY_MS)
  }
}

/** Sends messages as a network may: late, twice, in any order, or never. While the server is away they are sent again. */
class Deliveries {
  lost = 0
  accepted = 0
  readonly #world: PaymentWorld
  readonly #running = new Set<Promise<void>>()
  #next = 0

  constructor(world: PaymentWorld) {
    this.#world = world
  }

  sendNew(): void {
    for (const event of this.#world.stripe.events.slice(this.#next)) {
      this.#next += 1
      if (randomInt(100) < LOST) this.lost += 1
      else for (let n = randomInt(100) < TWICE ? 2 : 1; n > 0; n -= 1) this.#send(event)
    }
  }

  async end(): Promise<void> {
    await Promise.all(this.#running)
  }

  #send(event: Json): void {
    const delivery = this.#deliver(event).finally(() => this.#running.delete(delivery))
    this.#running.add(delivery)
  }

  async #deliver(event: Json): Promise<void> {
    let status: number | undefined
    await pause(randomInt(MAX_DELAY_MS))
    while (status !== 200) {
      status = await this.#world.stripe.deliver(this.#world.url(), event).catch(() => undefined)
      if (status !== 200) await pause(AWAY_MS)
    }
    this.accepted += 1
  }
}

function pick<T>(rows: readonly T[]): T {
  const row = pickFrom(rows)
  if (row === undefined) throw new Error('nothing to pick from')
  return row
}

function pickFrom<T>(rows: readonly T[]): T | undefined {
  return rows.length === 0 ? undefined : rows[randomInt(rows.length)]
}

/** Customers take their time: no fact ends it. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
