/** The ledger: kinds of entries, its checks and their findings, and the accounts of the house. */
import type { Reply } from '../client/client.ts'
import type { Tone } from './tone.ts'

type Entry = Reply<'getStatement'>['lines'][number]

export const entryLabels = {
  purchase: ['Purchase', 'good'],
  credit: ['Credit', 'good'],
  refund: ['Refund', 'good'],
  adjustment: ['Adjustment', 'warn'],
  charge: ['Charge', 'plain'],
  payout: ['Payout', 'info'],
  credit_draw: ['Credit line drawn', 'info'],
  credit_repayment: ['Credit line repaid', 'info'],
  payment_refund: ['Payment refunded', 'info'],
  dispute: ['Payment disputed', 'bad'],
  dispute_return: ['Dispute won', 'good'],
  debt_repayment: ['Debt repaid', 'info'],
  payout_return: ['Payout returned', 'warn'],
} as const satisfies Record<Entry['kind'], readonly [label: string, tone: Tone]>

/** Each check, as the fact that holds while it passes. */
const checks: Readonly<Record<string, string>> = {
  balance_is_its_transfers: 'Every balance is the sum of its transfers',
  ledger_sums_to_zero: 'All ledger accounts sum to zero',
  never_below_zero: 'No balance or hold is negative',
  batch_cost_is_its_requests: 'The cost of every batch is that of its requests',
  batch_lines_are_its_requests: 'Every answered line of a batch is one request',
  days_are_what_was_posted: 'The sums of every day are those of its postings',
  account_spend_is_its_charges: 'The spend of every month is its charges minus refunds',
  holds_are_what_is_held: 'The held balance is the sum of the holds',
  posting_has_transfers: 'Every posting has a transfer',
  posting_moves_its_own_balance: 'Every posting moves money in its own account',
  segment_settled_is_its_charges: 'Every segment was charged its settled amount',
  segment_settled_to_the_millisecond: 'Every segment is priced to the millisecond',
  supplier_gets_its_share: 'Every supplier received its share',
  segments_follow_one_another: 'Bills have no gaps and no overlaps',
  bill_begins_with_the_rental: 'Every bill starts with its rental',
  bill_ends_with_the_rental: 'Every bill ends with its rental',
  what_runs_is_metered: 'Everything that runs is metered',
  what_ended_costs_nothing: 'Nothing that has ended is charged',
  stopped_rentals_pay_for_their_disk_only: 'Stopped rentals pay for their disks only',
  rentals_without_gpus_pay_for_their_cpus_only: 'Rentals that run without their GPUs pay for CPUs and disks only',
  commitment_is_held: 'Every reserved term is held in full, less its charges',
  commitment_costs_no_more_than_its_term: 'No reserved term cost more than its total',
  early_end_is_rerated: 'Every early end was charged at the price of the longest completed term',
  supplier_gets_its_share_of_early_ends: 'Every supplier received its share of early ends',
  credit_used_is_what_was_drawn: 'Used credit equals credit drawn and not repaid',
  credit_is_repaid_first: 'No account with used credit has an available balance',
  payments_are_their_postings: 'Every paid payment was credited once, with its tax',
  refunds_are_their_postings: 'Every refund was taken once, and failed ones came back',
  disputes_are_their_postings: 'Every dispute took what it says, and won ones gave it back',
  payments_are_not_overdrawn: 'Refunds and disputes took no more than was paid',
  tax_is_what_was_paid: 'Tax is that of payments, less refunds and disputes',
  payouts_are_their_postings: 'Every approved payout was taken from the earnings once',
  payout_returns_are_their_postings: 'Every payout that came back is in the earnings again',
  payouts_are_past_their_holdback: 'No run paid earnings within the holdback',
  bank_files_add_up: 'Every bank file is the sum of its payouts',
  debts_are_what_was_lent: 'Every debt is what disputes left, less repayments',
  debt_is_repaid_first: 'No account in debt has an available balance',
  processor_fees_are_its_transactions: 'Every fee of the payment processor was booked once',
  automatic_payments_stay_within_caps: 'No automatic payments of a month exceeded their cap',
  gpus_claimed_are_counted: 'Every machine’s GPU count matches its claims',
  gpus_claimed_are_in_use: 'Every claimed GPU belongs to a rental that uses it',
  disks_are_counted: 'Every machine’s disk space matches the disks of its rentals',
  key_spend_is_its_charges: 'The spend of every key equals its charges',
  requests_are_what_is_charged: 'Every inference request was charged its recorded cost',
  request_days_are_their_requests: 'The daily sums of requests match the requests',
  costs_are_purchases: 'Every cost belongs to a machine of another cloud',
  purchase_settled_is_its_postings: 'Every machine of another cloud was booked at its settled cost',
  purchase_settled_to_the_millisecond: 'Every machine of another cloud is costed to the millisecond',
  provider_cost_is_its_postings: 'The costs of every day are those of its postings',
  purse_is_a_hold_with_an_end: 'Every purse is a hold that expires',
}

const findings: Readonly<Record<string, string>> = {
  rental_released: 'A machine is running although its rental has ended',
  second_machine: 'A second machine is running for one rental',
  unknown_rental: 'A machine is running without a rental',
  volume_deleted: 'A volume exists although it was deleted',
  second_volume: 'A second volume exists under the same name',
  unknown_volume: 'A volume exists that is not in the database',
  not_shown: 'A rental is running, but its engine does not report it',
}

const houseAccounts: Readonly<Record<string, string>> = {
  credit: 'Credit: lent for reserved terms and not repaid',
  funding: 'Funding: paid in by customers',
  revenue: 'Revenue: spent by customers, less the suppliers’ share',
  adjustments: 'Adjustments: gifts and corrections',
  payouts: 'Payouts: paid out to suppliers',
  cost_of_goods: 'Cost of goods: charged by other clouds for rented machines',
  payables: 'Payables: owed to other clouds',
  processor: 'Processor: money at Stripe',
  tax: 'Tax: owed to tax offices',
  processor_fees: 'Processor fees: kept by Stripe',
  receivables: 'Receivables: owed by customers after chargebacks',
}

export function checkLabel(name: string): string {
  return checks[name] ?? plainName(name)
}

/** The label of a finding of the ledger or of a driver. */
export function findingLabel(name: string): string {
  const fact = checks[name]
  if (fact === undefined) return findings[name] ?? plainName(name)
  return `Violated: ${fact.charAt(0).toLowerCase()}${fact.slice(1)}`
}

export function houseAccountLabel(name: string): string {
  return houseAccounts[name] ?? plainName(name)
}

/** A newer server may have names that this page does not know. */
function plainName(name: string): string {
  return name.replaceAll('_', ' ')
}
