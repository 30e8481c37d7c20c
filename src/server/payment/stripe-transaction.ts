/** Stripe's own ledger: its balance transactions, by what they are for. */
import type { Stripe } from 'stripe'
import { instantOf, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { ProcessorTransaction } from '../../domain/processor.ts'

const PAGE = 100

/** The keys are Stripe's reporting categories. The types of transactions are many more, and new ones appear. */
const kinds: Readonly<Record<string, ProcessorTransaction['kind']>> = {
  charge: 'charge',
  charge_failure: 'charge',
  refund: 'refund',
  refund_failure: 'refund',
  dispute: 'dispute',
  dispute_reversal: 'dispute',
  transfer: 'transfer',
  transfer_reversal: 'transfer',
  fee: 'fee',
  network_cost: 'fee',
  tax: 'fee',
  payout: 'own',
  payout_reversal: 'own',
  topup: 'own',
  topup_reversal: 'own',
  risk_reserved_funds: 'own',
  connect_reserved_funds: 'own',
}

type List = (params: Stripe.BalanceTransactionListParams) => Promise<Stripe.ApiList<Stripe.BalanceTransaction>>

export async function* listTransactions(
  list: List,
  from: Instant,
  until: Instant,
): AsyncGenerator<ProcessorTransaction> {
  const created = { gte: Math.floor(from / 1_000), lt: Math.ceil(until / 1_000) }
  let after: string | undefined
  for (let count = 0; count < limits.processorTransactions; count += PAGE) {
    const page = await list({ created, limit: PAGE, ...(after === undefined ? {} : { starting_after: after }) })
    for (const transaction of page.data) yield transactionOf(transaction)
    after = page.data.at(-1)?.id
    if (!page.has_more || after === undefined) return
  }
  throw new Error(`the payment processor has more than ${limits.processorTransactions} transactions in this period`)
}

function transactionOf(transaction: Stripe.BalanceTransaction): ProcessorTransaction {
  const { source } = transaction
  return {
    id: transaction.id,
    kind: kinds[transaction.reporting_category] ?? 'other',
    sourceId: typeof source === 'string' ? source : (source?.id ?? null),
    cents: transaction.amount,
    feeCents: transaction.fee,
    currency: transaction.currency,
    at: instantOf(transaction.created * 1_000),
  }
}
