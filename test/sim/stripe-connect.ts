/** Stripe Connect in the simulator: accounts of suppliers, the pages on which they are changed, transfers and reversals. */
import { failure, numberOf, type Json } from './stripe-object.ts'

/** What the simulator does for all objects. */
interface Books {
  save(object: string, prefix: string, fields: Json): Json
  emit(type: string, object: Json): void
  balance(type: string, source: string, amount: number): Json
  get(id: string): Json
  find(id: string): Json | undefined
}

export class SimulatedConnect {
  /** What transfers can be paid from, in cents. */
  funds = Number.POSITIVE_INFINITY
  readonly #books: Books

  constructor(books: Books) {
    this.#books = books
  }

  /** undefined: it is none of these objects. */
  create(noun: string, params: Json): [number, Json] | undefined {
    if (noun === 'accounts') return [200, this.#createAccount(params)]
    if (noun === 'account_links') {
      if (this.#books.find(String(params['account'])) === undefined)
        return [400, failure('invalid_request_error', 'resource_missing', 'No such account')]
      return [200, { object: 'account_link', url: `https://connect.stripe.example/setup/${String(params['account'])}` }]
    }
    return noun === 'transfers' ? this.#createTransfer(params) : undefined
  }

  /** A page on which a complete account is changed. */
  logIn(account: Json): [number, Json] {
    if (account['payouts_enabled'] !== true)
      return [400, failure('invalid_request_error', 'account_incomplete', 'Not onboarded')]
    return [200, { object: 'login_link', url: `https://connect.stripe.example/express/${String(account['id'])}` }]
  }

  /** The supplier completes the page of Stripe, or enters another bank account there. */
  onboard(accountId: string, last4 = '6789'): void {
    const bank = {
      id: `ba_${last4}`,
      object: 'bank_account',
      fingerprint: `fp${last4}`,
      last4,
      default_for_currency: true,
    }
    const account = Object.assign(this.#books.get(accountId), {
      payouts_enabled: true,
      capabilities: { transfers: 'active' },
      external_accounts: { object: 'list', data: [bank] },
    })
    this.#books.emit('account.updated', account)
  }

  /** Stripe wants more documents. */
  restrict(accountId: string): void {
    this.#books.emit('account.updated', Object.assign(this.#books.get(accountId), { payouts_enabled: false }))
  }

  reverse(transferId: string, cents?: number): Json {
    const transfer = this.#books.get(transferId)
    const amount = cents ?? (transfer['amount'] as number) - (transfer['amount_reversed'] as number)
    const reversal = this.#books.save('transfer_reversal', 'trr', { amount, transfer: transferId })
    ;(transfer['reversals'] as { data: Json[] }).data.push(reversal)
    transfer['amount_reversed'] = (transfer['amount_reversed'] as number) + amount
    this.funds += amount
    this.#books.balance('transfer_reversal', String(reversal['id']), amount)
    this.#books.emit('transfer.reversed', transfer)
    return reversal
  }

  #createAccount(params: Json): Json {
    return this.#books.save('account', 'acct', {
      type: params['type'],
      country: params['country'] ?? 'US',
      metadata: params['metadata'] ?? {},
      payouts_enabled: false,
      capabilities: { transfers: 'inactive' },
      external_accounts: { object: 'list', data: [] },
    })
  }

  #createTransfer(params: Json): [number, Json] {
    const account = this.#books.find(String(params['destination']))
    const amount = numberOf(params['amount'])
    if (account === undefined) return [400, failure('invalid_request_error', 'resource_missing', 'No such destination')]
    if ((account['capabilities'] as Json)['transfers'] !== 'active')
      return [400, failure('invalid_request_error', 'insufficient_capabilities_for_transfer', 'Not active')]
    if (amount > this.funds) return [400, failure('invalid_request_error', 'balance_insufficient', 'Too little money')]
    this.funds -= amount
    const transfer = this.#books.save('transfer', 'tr', {
      amount,
      amount_reversed: 0,
      currency: params['currency'],
      destination: params['destination'],
      transfer_group: params['transfer_group'] ?? null,
      reversals: { object: 'list', data: [] },
    })
    this.#books.balance('transfer', String(transfer['id']), -amount)
    return [200, transfer]
  }
}
