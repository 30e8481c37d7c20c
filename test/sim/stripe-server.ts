/**
 * A simulator of Stripe on a real port: customers, checkout sessions, payment intents, refunds, disputes, connected
 * accounts, transfers, balance transactions and events. It keeps state and idempotency keys as Stripe does, and fails on command: before a call, or after
 * it, so that only the answer is lost. Messages are delivered when a test says so, in its order and number.
 */
import { randomBytes } from 'node:crypto'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { Stripe } from 'stripe'
import type { Clock } from '../../src/base/instant.ts'
import { SimulatedConnect } from './stripe-connect.ts'
import {
  cards,
  expandObject,
  failure,
  listOf,
  numberOf,
  pageOf,
  parseForm,
  type Card,
  type Json,
  type StripeCall,
  type StripeFault,
} from './stripe-object.ts'

const FEE_PERCENT = 3

export class StripeSimulator {
  readonly secret = 'whsec_simulatedsecret0001'
  readonly objects = new Map<string, Json>()
  readonly events: Json[] = []
  readonly calls: StripeCall[] = []
  /** For the next calls, one each. */
  readonly faults: Array<StripeFault | undefined> = []
  /** Chooses the fault of each call that `faults` has none for. */
  chaos: ((call: StripeCall) => StripeFault | undefined) | undefined
  /** Every charge of a saved card is declined. */
  declines = false
  /** What Stripe Tax decides. */
  taxPercent = 0
  /** Called with each call before it is answered: a second opinion about its parameters. */
  check: ((call: StripeCall) => Promise<void>) | undefined
  readonly connect = new SimulatedConnect({
    save: (object, prefix, fields) => this.#save(object, prefix, fields),
    emit: (type, object) => this.#emit(type, object),
    balance: (type, source, amount) => this.#balance(type, source, amount, 0),
    get: (id) => this.get(id),
    find: (id) => this.objects.get(id),
  })
  readonly #clock: Clock
  readonly #isLive: boolean
  readonly #answers = new Map<string, { request: string; status: number; body: Json }>()
  readonly #server: http.Server

  private constructor(clock: Clock, isLive: boolean) {
    this.#clock = clock
    this.#isLive = isLive
    this.#server = http.createServer((request, response) => {
      void this.#serve(request, response).catch(() => response.destroy())
    })
  }

  static async open(clock: Clock, options: { isLive?: boolean } = {}): Promise<StripeSimulator> {
    const simulator = new StripeSimulator(clock, options.isLive ?? false)
    await new Promise<void>((resolve) => simulator.#server.listen(0, '127.0.0.1', resolve))
    return simulator
  }

  get key(): string {
    return `sk_${this.#isLive ? 'live' : 'test'}_simulatedkey000001`
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** The settings of a server that uses it. */
  get env(): Record<string, string> {
    return {
      BERTH_STRIPE_KEY: this.key,
      BERTH_STRIPE_WEBHOOK_SECRETS: this.secret,
      BERTH_STRIPE_URL: this.url,
      BERTH_PUBLIC_URL: 'https://berth.example.com',
    }
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  all(kind: string): Json[] {
    return [...this.objects.values()].filter(({ object }) => object === kind)
  }

  get(id: string): Json {
    const object = this.objects.get(id)
    if (object === undefined) throw new Error(`Stripe has no ${id}`)
    return object
  }

  /** The customer enters a card on the page. `changes`: of the session, for what must not be credited. */
  pay(sessionId: string, card: Card = cards.good, changes: Json = {}): Json {
    const session = this.get(sessionId)
    if (session['status'] !== 'open') throw new Error(`the page of ${sessionId} is closed`)
    const subtotal = session['amount_subtotal'] as number
    const tax = Math.round((subtotal * this.taxPercent) / 100)
    const intent = this.#charge(session, subtotal + tax, card)
    if (intent['status'] !== 'succeeded') return intent
    Object.assign(session, {
      status: 'complete',
      payment_status: 'paid',
      amount_total: subtotal + tax,
      total_details: { amount_tax: tax },
      payment_intent: intent['id'],
      ...changes,
    })
    this.#emit('checkout.session.completed', session)
    return intent
  }

  /** The page is closed; nothing was paid. */
  expire(sessionId: string): void {
    this.#emit('checkout.session.expired', Object.assign(this.get(sessionId), { status: 'expired' }))
  }

  /** Money that Berth did not ask for, such as that of a shop with the same account. */
  payElsewhere(cents: number): Json {
    const customer = this.#save('customer', 'cus', {})
    const session = this.#save('checkout.session', 'cs_test', {
      mode: 'payment',
      status: 'open',
      payment_status: 'unpaid',
      currency: 'usd',
      amount_subtotal: cents,
      customer: customer['id'],
      client_reference_id: 'order-17',
      metadata: {},
      intentMetadata: {},
    })
    this.pay(String(session['id']))
    return session
  }

  /** The owner of the card disputes a payment. An inquiry takes nothing yet. */
  dispute(intentId: string, options: { inquiry?: true; cents?: number } = {}): Json {
    const intent = this.get(intentId)
    const dispute = this.#save('dispute', 'dp', {
      payment_intent: intentId,
      charge: intent['latest_charge'],
      amount: options.cents ?? intent['amount_received'],
      currency: 'usd',
      reason: 'fraudulent',
      status: options.inquiry ? 'warning_needs_response' : 'needs_response',
      balance_transactions: [],
    })
    this.#emit('charge.dispute.created', dispute)
    if (!options.inquiry) this.withdraw(String(dispute['id']))
    return dispute
  }

  withdraw(disputeId: string): void {
    const dispute = this.get(disputeId)
    dispute['status'] = 'needs_response'
    this.#disputeBalance(dispute, -(dispute['amount'] as number), 1_500)
    this.#emit('charge.dispute.funds_withdrawn', dispute)
  }

  closeDispute(disputeId: string, status: 'won' | 'lost' | 'warning_closed'): void {
    const dispute = Object.assign(this.get(disputeId), { status })
    if (status === 'won') {
      this.#disputeBalance(dispute, dispute['amount'] as number, 0)
      this.#emit('charge.dispute.funds_reinstated', dispute)
    }
    this.#emit('charge.dispute.closed', dispute)
  }

  warn(intentId: string): Json {
    const charge = this.get(intentId)['latest_charge']
    const warning = this.#save('radar.early_fraud_warning', 'issfr', { payment_intent: intentId, charge })
    this.#emit('radar.early_fraud_warning.created', warning)
    return warning
  }

  /** The customer removes a saved card on the page of Stripe. */
  detach(methodId: string): void {
    this.#emit('payment_method.detached', Object.assign(this.get(methodId), { customer: null }))
  }

  failRefund(refundId: string): void {
    const refund = Object.assign(this.get(refundId), { status: 'failed', failure_reason: 'lost_or_stolen_card' })
    this.#balance('refund_failure', refundId, refund['amount'] as number, 0)
    this.#emit('refund.failed', refund)
  }

  /** Stripe pays its balance out to the operator's bank, or charges for something of its own. */
  moveBalance(category: 'payout' | 'fee' | 'other_adjustment', amount: number): Json {
    return Object.assign(this.#balance(category === 'fee' ? 'stripe_fee' : category, '', amount, 0), { source: null })
  }

  /** Posts an event as Stripe does. `secret`, `at` and `change`: for messages that must be refused. */
  async deliver(
    target: string,
    event: Json,
    options: { secret?: string; at?: number; change?: (text: string) => string } = {},
  ): Promise<number> {
    const payload = JSON.stringify(event)
    const timestamp = Math.floor((options.at ?? this.#clock.now()) / 1_000)
    const signature = new Stripe(this.key).webhooks.generateTestHeaderString({
      payload,
      secret: options.secret ?? this.secret,
      timestamp,
    })
    const response = await fetch(`${target}/stripe/webhook`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json; charset=utf-8', 'Stripe-Signature': signature },
      body: options.change?.(payload) ?? payload,
    })
    await response.arrayBuffer()
    return response.status
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const url = new URL(request.url ?? '/', this.url)
    const body = Buffer.concat(chunks).toString()
    const text = request.method === 'GET' ? url.search.slice(1) : body
    const { 'idempotency-key': key = null } = request.headers as Record<string, string | undefined>
    const call = {
      method: request.method ?? '',
      path: url.pathname,
      params: parseForm(text),
      text,
      key,
      version: String(request.headers['stripe-version']),
    }
    this.calls.push(call)
    await this.check?.(call)
    const fault = this.faults.length > 0 ? this.faults.shift() : this.chaos?.(call)
    const write = (status: number, value: Json) => {
      response.writeHead(status, { 'Content-Type': 'application/json', 'Request-Id': 'req_simulated' })
      response.end(JSON.stringify(value))
    }
    if (request.headers.authorization !== `Bearer ${this.key}`)
      return write(401, failure('authentication_error', 'api_key', `Invalid API Key provided: ${this.key}`))
    if (fault === 'before') return write(500, failure('api_error', null, 'It broke'))
    if (fault === 'refuse') return write(400, failure('invalid_request_error', 'parameter_invalid', 'It is wrong'))
    const [status, answer] = this.#answer(call, text)
    if (fault === 'after') response.destroy()
    else write(status, answer)
  }

  #answer(call: StripeCall, text: string): [number, Json] {
    if (call.key === null) return this.#route(call)
    const request = `${call.path}?${text}`
    const before = this.#answers.get(call.key)
    if (before !== undefined && before.request !== request)
      return [400, failure('idempotency_error', null, 'The key was used with other parameters')]
    if (before !== undefined) return [before.status, before.body]
    const [status, body] = this.#route(call)
    // A copy: the answer stays what it was.
    const { code } = (body['error'] ?? {}) as Json
    const isKept = status === 200 || status === 402 || code === 'balance_insufficient'
    if (isKept) this.#answers.set(call.key, { request, status, body: JSON.parse(JSON.stringify(body)) as Json })
    return [status, body]
  }

  #route({ method, path, params }: StripeCall): [number, Json] {
    const [, , kind = '', id = '', third = ''] = path.split('/')
    const isNested = ['checkout', 'radar', 'tax', 'billing_portal'].includes(kind)
    const objectId = isNested ? third : id
    const noun = kind === 'billing_portal' ? kind : isNested ? id : kind
    if (method === 'POST' && !isNested && third !== '') return this.#act(third, objectId)
    if (method === 'POST' && objectId === '') return this.#create(noun, params)
    if (method === 'GET' && objectId === '') return [200, this.#list(noun, params)]
    const object = this.objects.get(objectId)
    if (object === undefined) return [404, failure('invalid_request_error', 'resource_missing', `No such ${noun}`)]
    return [200, expandObject(object, listOf(params['expand']).map(String), (one) => this.objects.get(one))]
  }

  #create(noun: string, params: Json): [number, Json] {
    if (noun === 'customers') return [200, this.#save('customer', 'cus', { name: params['name'] })]
    if (noun === 'sessions') return this.#createSession(params)
    if (noun === 'refunds') return this.#createRefund(params)
    if (noun === 'calculations') return this.#calculate(params)
    if (noun === 'payment_intents') return this.#chargeSaved(params)
    if (noun === 'billing_portal')
      return [200, this.#save('billing_portal.session', 'bps', { url: 'https://billing.stripe.example/p/session' })]
    return this.connect.create(noun, params) ?? [404, failure('invalid_request_error', 'unknown_path', noun)]
  }

  #createSession(params: Json): [number, Json] {
    const [item] = listOf(params['line_items']) as Json[]
    const price = (item?.['price_data'] ?? {}) as Json
    const expiresAt = numberOf(params['expires_at'])
    const msLeft = expiresAt * 1_000 - this.#clock.now()
    if (msLeft < 30 * 60_000 - 1_000 || msLeft > 24 * 3_600_000)
      return [400, failure('invalid_request_error', 'expires_at', 'Between 30 minutes and 24 hours')]
    if (!this.objects.has(String(params['customer'])))
      return [400, failure('invalid_request_error', 'resource_missing', 'No such customer')]
    const intentData = (params['payment_intent_data'] ?? {}) as Json
    const session = this.#save('checkout.session', this.#isLive ? 'cs_live' : 'cs_test', {
      mode: params['mode'],
      status: 'open',
      payment_status: 'unpaid',
      currency: price['currency'],
      amount_subtotal: numberOf(price['unit_amount']) * numberOf(item?.['quantity']),
      amount_total: null,
      total_details: { amount_tax: 0 },
      customer: params['customer'],
      client_reference_id: params['client_reference_id'] ?? null,
      payment_intent: null,
      expires_at: expiresAt,
      intentMetadata: intentData['metadata'] ?? {},
      savesCard: intentData['setup_future_usage'] === 'off_session',
    })
    session['url'] = `https://checkout.stripe.example/c/pay/${String(session['id'])}`
    return [200, session]
  }

  #calculate(params: Json): [number, Json] {
    if (!this.objects.has(String(params['customer'])))
      return [400, failure('invalid_request_error', 'resource_missing', 'No such customer')]
    const [item] = listOf(params['line_items']) as Json[]
    const amount = numberOf(item?.['amount'])
    const tax = Math.round((amount * this.taxPercent) / 100)
    return [
      200,
      this.#save('tax.calculation', 'taxcalc', {
        customer: params['customer'],
        amount_total: amount + tax,
        tax_amount_exclusive: tax,
      }),
    ]
  }

  /** A charge without the customer, as Stripe answers it: a refusal of the bank is an error with the intent. */
  #chargeSaved(params: Json): [number, Json] {
    const hooks = params['hooks'] as { inputs?: { tax?: { calculation?: string } } } | undefined
    const calculation = this.objects.get(hooks?.inputs?.tax?.calculation ?? '')
    const method = this.objects.get(String(params['payment_method']))
    const amount = numberOf(params['amount'])
    if (method === undefined || method['customer'] !== params['customer'])
      return [400, failure('invalid_request_error', 'payment_method_unattached', 'It is not attached')]
    if (calculation?.['amount_total'] !== amount)
      return [400, failure('invalid_request_error', 'amount_mismatch', 'The calculation has another amount')]
    const source = { customer: params['customer'], intentMetadata: params['metadata'] ?? {} }
    const intent = this.#chargeMethod(source, amount, method)
    if (intent['status'] === 'succeeded')
      return [200, expandObject(intent, ['latest_charge', 'payment_method'], this.#find)]
    const { code, decline_code: declineCode } = intent['last_payment_error'] as Json
    return [
      402,
      { error: { type: 'card_error', code, decline_code: declineCode, message: 'Declined', payment_intent: intent } },
    ]
  }

  #act(verb: string, id: string): [number, Json] {
    const object = this.objects.get(id)
    if (object === undefined) return [404, failure('invalid_request_error', 'resource_missing', `No such ${verb}`)]
    if (verb === 'detach') {
      if (object['customer'] === null) return [400, failure('invalid_request_error', null, 'It is not attached')]
      this.detach(id)
      return [200, object]
    }
    if (verb === 'login_links') return this.connect.logIn(object)
    if (verb !== 'cancel') return [404, failure('invalid_request_error', 'unknown_path', verb)]
    if (object['status'] === 'succeeded' || object['status'] === 'canceled')
      return [400, failure('invalid_request_error', 'payment_intent_unexpected_state', 'It is over')]
    Object.assign(object, { status: 'canceled', last_payment_error: null })
    return [200, object]
  }

  readonly #find = (id: string): Json | undefined => this.objects.get(id)

  #createRefund(params: Json): [number, Json] {
    const intentId = String(params['payment_intent'])
    const intent = this.objects.get(intentId)
    const amount = numberOf(params['amount'])
    if (intent === undefined) return [404, failure('invalid_request_error', 'resource_missing', 'No such intent')]
    if (this.all('dispute').some((one) => one['payment_intent'] === intentId && one['status'] !== 'won'))
      return [400, failure('invalid_request_error', 'charge_disputed', 'The charge is disputed')]
    const before = this.all('refund').filter((one) => one['payment_intent'] === intentId && one['status'] !== 'failed')
    const sum = before.reduce((total, one) => total + (one['amount'] as number), 0)
    if (sum + amount > (intent['amount_received'] as number))
      return [400, failure('invalid_request_error', 'amount_too_large', 'More than was paid')]
    const refund = this.#save('refund', 're', {
      payment_intent: intentId,
      charge: intent['latest_charge'],
      amount,
      currency: 'usd',
      status: 'succeeded',
      metadata: params['metadata'] ?? {},
    })
    this.#balance('refund', String(refund['id']), -amount, 0)
    this.#emit('refund.updated', refund)
    return [200, refund]
  }

  #list(noun: string, params: Json): Json {
    if (noun === 'balance_transactions') return pageOf(this.#transactions(params), noun, params)
    const types = listOf(params['types']).map(String)
    const since = numberOf((params['created'] as Json | undefined)?.['gte'] ?? 0)
    const rows =
      noun === 'events'
        ? this.events.filter((one) => types.includes(String(one['type'])) && (one['created'] as number) >= since)
        : this.all(noun.replace(/s$/, '')).filter(
            (one) =>
              (params['payment_intent'] === undefined || one['payment_intent'] === params['payment_intent']) &&
              (params['customer'] === undefined || one['customer'] === params['customer']) &&
              (params['transfer_group'] === undefined || one['transfer_group'] === params['transfer_group']) &&
              (one['created'] as number) >= since,
          )
    return pageOf(rows.toReversed(), noun, params)
  }

  #transactions(params: Json): Json[] {
    const { gte, lt } = (params['created'] ?? {}) as Json
    const rows = this.all('balance_transaction').toReversed()
    return rows.filter(({ created }) => (created as number) >= numberOf(gte) && (created as number) < numberOf(lt))
  }

  #charge(session: Json, amount: number, card: Card): Json {
    const method = this.#save('payment_method', 'pm', {
      type: 'card',
      customer: session['customer'],
      number: card.number,
      card: {
        brand: card.brand,
        last4: card.number.slice(-4),
        fingerprint: `fp${card.number}`,
        exp_month: 12,
        exp_year: 2030,
      },
    })
    // On the page its owner answers what the bank asks.
    return this.#chargeMethod(session, amount, method, card.number === cards.declined.number ? 'generic_decline' : null)
  }

  #chargeMethod(source: Json, amount: number, method: Json, refusal = this.#refusalOf(method)): Json {
    const isGood = refusal === null
    const intent = this.#save('payment_intent', 'pi', {
      amount,
      amount_received: isGood ? amount : 0,
      currency: 'usd',
      customer: source['customer'],
      status: isGood ? 'succeeded' : 'requires_payment_method',
      metadata: source['intentMetadata'],
      payment_method: method['id'],
      latest_charge: null,
      last_payment_error: isGood
        ? null
        : refusal === 'authentication_required'
          ? { code: refusal, decline_code: refusal }
          : { code: 'card_declined', decline_code: refusal },
    })
    if (!isGood) {
      this.#emit('payment_intent.payment_failed', intent)
      return intent
    }
    const charge = this.#save('charge', 'ch', { payment_intent: intent['id'], amount, paid: true })
    intent['latest_charge'] = charge['id']
    this.#balance('charge', String(charge['id']), amount, Math.round((amount * FEE_PERCENT) / 100))
    this.#emit('payment_intent.succeeded', intent)
    return intent
  }

  /** What the bank says about a charge without the owner of the card. null: nothing. */
  #refusalOf(method: Json): string | null {
    if (this.declines) return 'insufficient_funds'
    return method['number'] === cards.asks.number ? 'authentication_required' : null
  }

  #disputeBalance(dispute: Json, amount: number, fee: number): void {
    const row = this.#balance('adjustment', String(dispute['id']), amount, fee)
    ;(dispute['balance_transactions'] as Json[]).push(row)
  }

  #balance(type: string, source: string, amount: number, fee: number): Json {
    const ofDispute = amount < 0 ? 'dispute' : 'dispute_reversal'
    const category = type === 'adjustment' ? ofDispute : type === 'stripe_fee' ? 'fee' : type
    return this.#save('balance_transaction', 'txn', {
      type,
      reporting_category: category,
      source,
      amount,
      fee,
      net: amount - fee,
      currency: 'usd',
    })
  }

  #save(object: string, prefix: string, fields: Json): Json {
    const id = `${prefix}_${randomBytes(8).toString('hex')}`
    const row = { id, object, livemode: this.#isLive, created: Math.floor(this.#clock.now() / 1_000), ...fields }
    this.objects.set(id, row)
    return row
  }

  #emit(type: string, object: Json): void {
    this.events.push({
      id: `evt_${randomBytes(8).toString('hex')}`,
      object: 'event',
      type,
      livemode: this.#isLive,
      created: Math.floor(this.#clock.now() / 1_000),
      api_version: '2026-08-26.dahlia',
      data: { object: JSON.parse(JSON.stringify(object)) as Json },
    })
  }
}
