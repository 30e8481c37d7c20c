/** The checks of the books, as the promises that they hold the books to. */
const checks: Readonly<Record<string, string>> = {
  balance_is_its_transfers: 'Every balance is the sum of its transfers',
  ledger_sums_to_zero: 'All accounts together sum to zero',
  never_below_zero: 'No balance and no hold is below zero',
  holds_are_what_is_held: 'What is held is the sum of the holds',
  posting_has_transfers: 'Every entry moves money',
  posting_moves_its_own_balance: 'Every entry moves the money of its own account',
  segment_settled_is_its_charges: 'Every stretch of time was charged what it says',
  segment_settled_to_the_millisecond: 'Every stretch of time costs its price, to the millisecond',
  supplier_gets_its_share: 'Every supplier got its share',
  segments_follow_one_another: 'Bills have neither gaps nor overlaps',
  bill_begins_with_the_rental: 'Every bill begins when its rental began',
  bill_ends_with_the_rental: 'Every bill ends when its rental ended',
  what_runs_is_metered: 'What runs is metered',
  what_ended_costs_nothing: 'What has ended costs nothing',
  commitment_is_held: 'Every reserved term is held in full, less its charges',
  commitment_costs_no_more_than_its_term: 'No reserved term cost more than its total',
  early_end_is_rerated: 'Every early end was charged at the price of the longest completed term',
  supplier_gets_its_share_of_early_ends: 'Every supplier got its share of early ends',
  credit_used_is_what_was_drawn: 'Used credit is what was drawn and not repaid',
  credit_is_repaid_first: 'No account that owes has money available',
  gpus_claimed_are_counted: 'Every machine counts the GPUs that are claimed',
  gpus_claimed_are_in_use: 'Every claimed GPU belongs to a rental that has it',
  key_spend_is_its_charges: 'What each key has spent is what it was charged',
  requests_are_what_is_charged: 'Model requests were charged what they cost',
  request_log_says_what_it_cost: 'The request log says what requests cost',
  purse_is_a_hold_with_an_end: 'Money that gateways have in hand is held, until a time',
}

const findings: Readonly<Record<string, string>> = {
  rental_released: 'A machine runs whose rental has ended',
  second_machine: 'A second machine runs for one rental',
  unknown_rental: 'A machine runs that is in no book',
  volume_deleted: 'A volume is there that was deleted',
  second_volume: 'A second volume is there under one name',
  unknown_volume: 'A volume is there that is in no book',
  not_shown: 'A rental runs in the books, and its engine does not show it',
}

const house: Readonly<Record<string, string>> = {
  credit: 'Credit: lent for reserved terms and not repaid',
  funding: 'Funding: money that customers have paid in',
  revenue: 'Revenue: what customers have spent, less the suppliers’ share',
  adjustments: 'Adjustments: gifts and corrections',
  payouts: 'Payouts: earnings that suppliers were paid',
}

export function checkWords(name: string): string {
  return checks[name] ?? plain(name)
}

/** Of the books or of an engine. */
export function findingWords(name: string): string {
  const promise = checks[name]
  return promise === undefined
    ? (findings[name] ?? plain(name))
    : `Broken: ${promise.charAt(0).toLowerCase()}${promise.slice(1)}`
}

export function houseWords(name: string): string {
  return house[name] ?? plain(name)
}

/** A newer server may say more than this page knows. */
function plain(name: string): string {
  return name.replaceAll('_', ' ')
}
