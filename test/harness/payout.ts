/** Suppliers with earnings on a server that pays through a simulated Stripe. */
import { randomUUID } from 'node:crypto'
import { HOUR_MS } from '../../src/base/instant.ts'
import { usd, type NanoUsd } from '../../src/base/money.ts'
import type { App } from '../../src/app/app.ts'
import { post } from '../../src/store/ledger/ledger.ts'
import { transact } from '../../src/store/platform/database.ts'
import type { ManualClock } from '../sim/clock.ts'
import type { Reply } from './exchange.ts'
import { endRental, openAccount, settle, startRental } from './ledger.ts'
import type { Paying } from './paying.ts'
import type { Call } from './server.ts'

export interface Supplier {
  readonly id: string
  readonly call: Call
}

export const IBAN = 'DE89370400440532013000'
export const bank = { holder: 'North Racks Ltd', iban: IBAN }

let customers = 0

/** A supplier without a fee, so that it earns what its customers pay. */
export async function openSupplier(paying: Pick<Paying, 'account'>): Promise<Supplier> {
  const { id, call } = await paying.account({ sshKey: false, platformFeePercentage: 0 })
  return { id, call }
}

/** A customer rents from the supplier for an hour, at this price. */
export async function earn(
  { app, clock }: { readonly app: App; readonly clock: ManualClock },
  supplierId: string,
  amountUsd: string,
): Promise<void> {
  customers += 1
  const ledger = { app, clock, database: app.database, close: () => Promise.resolve() }
  const customer = await openAccount(ledger, `renter${customers}`, usd(amountUsd))
  const supplier = { accountId: supplierId, platformFeeBp: 0 }
  const rentalId = await startRental(ledger, customer, { pricePerHour: usd(amountUsd), supplier })
  clock.advance(HOUR_MS)
  await settle(ledger, { rentalId, volumeId: null })
  await endRental(ledger, rentalId)
}

/** Runs the call, and returns its answer if it succeeded. */
export async function done(reply: Promise<Reply>): Promise<Reply['body']> {
  const { status, body } = await reply
  if (status !== 200) throw new Error(`answered with ${status}: ${JSON.stringify(body)}`)
  return body
}

export async function setUpBank({ call }: Supplier, details: object = bank): Promise<void> {
  await done(call('PUT', '/v2/supply/payouts/bank', details))
}

/** The supplier's connected account, complete. */
export async function setUpStripe(paying: Paying, { id, call }: Supplier): Promise<string> {
  await done(call('POST', '/v2/supply/payouts/stripe', { country: 'DE' }))
  const row = await paying.app.database.db
    .selectFrom('payout_account')
    .select('stripe_id')
    .where('account_id', '=', id)
    .executeTakeFirstOrThrow()
  const payeeId = row.stripe_id ?? ''
  paying.stripe.connect.onboard(payeeId)
  await paying.deliver()
  await paying.settle()
  return payeeId
}

/** Drafts a run and approves it. */
export async function payOut({ operator }: Pick<Paying, 'operator'>): Promise<Reply['body']> {
  const { id } = await done(operator('POST', '/v2/operator/payouts'))
  return done(operator('POST', `/v2/operator/payouts/${id}/approve`))
}

/** Earnings that are past every holdback, since they are no charge. */
export async function earnAtOnce(
  { database }: Pick<App, 'database'>,
  accountId: string,
  amount: NanoUsd,
): Promise<void> {
  const transfer = {
    from: { accountId: null, kind: 'adjustments' },
    to: { accountId, kind: 'earnings' },
    amount,
  } as const
  const posting = { kind: 'adjustment', accountId, memo: 'Earned', actor: null, reason: null } as const
  await transact(database, (tx) => post(tx, { ...posting, key: `earned:${randomUUID()}`, transfers: [transfer] }))
}
