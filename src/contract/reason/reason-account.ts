/** Reasons about accounts: members, keys, quotas, money, webhooks. */
import { formatUsdExactly, formatUsdForPeople, type NanoUsd } from '../../base/money.ts'
import { asGiven, conflict, forbidden, insufficientBalance, invalid, notFound, rateLimited } from './reason-entry.ts'

/** The purpose of the money. */
const shortfalls = {
  first_hour: (usd: string) => `The balance must cover the first hour: ${usd}.`,
  term: (usd: string) => `The balance must cover the whole reserved term: ${usd}.`,
  request: (usd: string) => `This request can cost up to ${usd}, more than the balance.`,
  withdrawal: (usd: string) => `The balance does not cover ${usd}.`,
  payout: (usd: string) => `The unpaid earnings do not cover ${usd}.`,
} as const

const moneySteps = {
  first_hour: 'Add money to the account, or choose a cheaper option.',
  term: 'Add money to the account, or choose a cheaper option.',
  request: 'Add money to the account, or choose a cheaper option.',
  withdrawal: 'Choose a smaller amount.',
  payout: 'Choose a smaller amount.',
} as const satisfies Record<keyof typeof shortfalls, string>

const rangeFaults = {
  format: () => 'Not a valid date.',
  order: () => 'The first day is after the last day.',
  length: (maxDays: number) => `The range is longer than ${maxDays} days.`,
} as const

export const accountReasons = {
  account_not_found: notFound('Account not found.'),
  owner_only: forbidden(
    ({ action }: { readonly action: string }) => `Only an account owner can ${action}.`,
    'Ask an owner of the account.',
  ),
  member_exists: conflict('This person is already a member of the account.'),
  member_not_found: notFound('There is no such member in this account.'),
  not_a_member: forbidden('This key belongs to someone who is no longer a member of the account.'),
  last_owner: conflict(
    'An account must keep at least one owner who has a valid key with the scope "keys".',
    'Make another member an owner and create such a key first.',
  ),
  key_not_found: notFound('There is no such API key in this account.'),
  key_not_rotatable: conflict(
    'Only an active API key can be rotated, and not one of berth login.',
    'Create a new key, or log in again.',
  ),
  scope_not_held: forbidden(
    ({ missing }: { readonly missing: readonly string[] }) =>
      missing.length === 0
        ? 'The calling key must have every scope of the keys it changes.'
        : `The calling key cannot grant scopes it does not have: ${missing.join(', ')}.`,
    'Use a key with these scopes.',
  ),
  role_too_low: forbidden('This key belongs to a member with a higher role.', 'Ask an owner of the account.'),
  viewer_is_read_only: forbidden(
    ({ scopes }: { readonly scopes: readonly string[] }) =>
      `Keys of a viewer can only have the scopes ${scopes.join(' and ')}.`,
  ),
  key_is_limited: forbidden('A key with a spending limit or a list of models cannot create keys.'),
  exceeds_parent_key_expiry: invalid('The new key cannot expire after the calling key.'),
  exceeds_parent_key_limit: invalid(
    ({ limit, unit }: { readonly limit: number; readonly unit: 'requests' | 'tokens' }) =>
      `The calling key is limited to ${limit} ${unit} per minute.`,
    'Set a limit no higher than this.',
  ),
  exceeds_parent_key_origins: invalid(
    ({ origins }: { readonly origins: readonly string[] }) =>
      `The calling key is for web pages, and does not allow ${origins.join(', ')}.`,
    'Allow only origins that the calling key allows, or use a key for no web page.',
  ),
  bad_ssh_key: invalid(
    'This is not an OpenSSH public key.',
    'Paste the line from a file such as ~/.ssh/id_ed25519.pub.',
  ),
  ssh_key_exists: conflict('The account already has this SSH key.'),
  ssh_key_not_found: notFound('There is no such SSH key in this account.'),
  quota_exceeded: forbidden(
    ({ quota, used }: { readonly quota: string; readonly used?: string }) =>
      `Quota reached: ${quota}${used === undefined ? '' : ` (${used} in use)`}.`,
    'Delete something you no longer need, or ask the operator for a higher quota.',
  ),
  stored_file_not_found: notFound('There is no such file in this account.'),
  file_in_use: conflict('A batch reads this file.', 'Wait for the batch to end, or cancel it.'),
  not_batch_input: invalid('The file is a result.', 'Upload a file with the purpose "batch".'),
  batch_not_found: notFound('There is no such batch in this account.'),
  batch_has_ended: conflict('The batch has ended.'),
  batch_not_ended: conflict('The batch has not ended.', 'Wait for it to end, or cancel it.'),
  too_many_batches: rateLimited(
    ({ max }: { readonly max: number }) => `The account has ${max} batches that have not ended.`,
    'Wait for one of them to end.',
  ),
  file_missing: invalid('The form has no file.', 'Send the file with its name in the field "file".'),
  too_many_uploads: rateLimited(
    ({ max }: { readonly max: number }) => `The account is uploading ${max} files already.`,
    'Wait for one of them to end.',
  ),
  webhook_not_found: notFound('There is no such webhook in this account.'),
  delivery_not_found: notFound('There is no such delivery in this account.'),
  url_refused: invalid(asGiven),
  bad_range: invalid(
    ({ fault, maxDays }: { readonly fault: keyof typeof rangeFaults; readonly maxDays: number }) =>
      rangeFaults[fault](maxDays),
    'Use dates such as 2026-11-14.',
  ),
  invoice_not_found: notFound('There is no invoice for this month.'),
  request_not_found: notFound('There is no such request in the log.'),
  insufficient_balance: insufficientBalance(
    ({ amount, purpose }: { readonly amount: NanoUsd; readonly purpose: keyof typeof shortfalls }) =>
      shortfalls[purpose](formatUsdForPeople(amount)),
    ({ purpose }) => moneySteps[purpose],
  ),
  payments_off: conflict('This server takes no payments by card.', 'Ask the operator to add money to the account.'),
  payment_not_found: notFound('There is no such payment in this account.'),
  comparison_running: conflict('A comparison with the payment processor is running.', 'Try again in a few minutes.'),
  payment_not_paid: conflict('Only a paid payment can be refunded.'),
  too_many_open_payments: conflict(
    'The account has too many open payments.',
    'Pay one of them, or wait until they expire after 40 minutes.',
  ),
  not_whole_cents: invalid('The amount must be a whole number of cents.'),
  top_up_range: invalid(
    ({ min, max }: { readonly min: NanoUsd; readonly max: NanoUsd }) =>
      `The amount must be from ${formatUsdForPeople(min)} to ${formatUsdForPeople(max)}.`,
  ),
  top_up_below_threshold: invalid(
    'The amount must be at least the threshold.',
    'One charge then brings the balance back above it.',
  ),
  cap_below_top_up: invalid('The monthly cap must be at least the amount.'),
  no_saved_card: conflict('The account has no saved card.', 'Add money once and save the card.'),
  card_not_found: notFound('There is no such card in this account.'),
  payments_unavailable: conflict('The payment processor did not answer.', 'Try again in a minute.'),
  nothing_to_pay_out: conflict(
    'No supplier can be paid now.',
    'See what each of them waits for: `berth operator payouts ls`.',
  ),
  payout_draft_open: conflict('Another payout run is a draft.', 'Approve or cancel it first.'),
  payout_run_not_found: notFound('There is no such payout run.'),
  payout_run_not_draft: conflict('The payout run is not a draft any more.'),
  payout_run_not_approved: conflict('The payout run is not approved.'),
  payout_run_exported: conflict(
    'The bank file of this payout run was exported before.',
    'If no bank has it, settle its payouts as failed: their money is then in the next run.',
  ),
  nothing_to_export: conflict('No approved payout of this run goes to a bank account.'),
  no_debtor_account: invalid(
    'This server does not know the account that you pay from.',
    'Set BERTH_PAYOUT_NAME and BERTH_PAYOUT_IBAN, or export CSV.',
  ),
  rate_too_low: invalid('With this rate a payout would be nothing.'),
  nothing_to_settle: conflict('No payout of this run waits for your word.'),
  payout_not_found: notFound('There is no such payout in this run.'),
  payout_not_exported: conflict('Only payouts of the exported bank file can be settled, each in its order.'),
  bad_iban: invalid('This is no IBAN: its check digits are wrong.'),
  bad_bic: invalid('This is no BIC: it has eight or eleven letters and digits.'),
  bad_account_number: invalid('The account number has 4 to 17 letters and digits.'),
  bad_routing_number: invalid('This is no routing number: it has nine digits, the last of which is a check digit.'),
  no_bank_account: invalid('Enter an IBAN, or an account number and a routing number.'),
  two_bank_accounts: invalid('Enter an IBAN or an account number, not both.'),
  payout_country: invalid(
    'Stripe cannot pay accounts in this country.',
    'Use a bank account: `berth supply payouts setup --iban IBAN`.',
  ),
  account_in_debt: insufficientBalance(
    'The account owes money after a disputed payment.',
    'Add money: payments repay the debt first.',
  ),
  key_spending_limit: insufficientBalance(
    ({ amount, left: allowance }: { readonly amount: NanoUsd; readonly left?: NanoUsd }) =>
      `This can cost up to ${formatUsdForPeople(amount)}, more than this key can still spend${
        allowance === undefined ? '' : ` (${formatUsdForPeople(allowance)})`
      }.`,
    'Use another key, or create one with a higher limit.',
  ),
  budget_exceeded: insufficientBalance(
    ({ name, amount }: { readonly name?: string; readonly amount?: NanoUsd }) =>
      name === undefined || amount === undefined
        ? 'A budget of the account is used up for this month.'
        : `The budget “${name}” of ${formatUsdForPeople(amount)} is used up for this month.`,
    'Raise the budget, or wait for the next month.',
  ),
  budget_exists: conflict('There is already a budget for this.', 'Change that budget instead.'),
  budget_not_found: notFound('There is no such budget in this account.'),
  budget_scope_value: invalid(({ scope }: { readonly scope: 'account' | 'key' | 'label' }) =>
    scope === 'account'
      ? 'A budget for the whole account has no scopeValue.'
      : `Set scopeValue to the ${scope} this budget applies to.`,
  ),
  statement_too_long: invalid(
    ({ maxLines }: { readonly maxLines: number }) => `The statement has more than ${maxLines} lines.`,
    'Choose a shorter range of days.',
  ),
  mail_not_configured: invalid(
    'This server cannot send e-mail.',
    'Set BERTH_SMTP_URL and BERTH_MAIL_FROM, and restart the server.',
  ),
  mail_refused: invalid(
    ({ message }: { readonly message: string }) => `The mail server rejected the message: ${message}.`,
    'Check BERTH_SMTP_URL, BERTH_MAIL_FROM and the address.',
  ),
  mail_already_confirmed: conflict('This address is already confirmed: notifications are sent to it.'),
  too_many_confirmations: rateLimited(
    'Too many confirmation e-mails were sent today.',
    'Use the link in one of them, or try again tomorrow.',
  ),
  nothing_to_change: invalid('The request contains no changes.'),
  cannot_suspend_self: invalid('You cannot suspend the account that your own key belongs to.'),
  still_a_supplier: invalid(
    ({ unpaid }: { readonly unpaid: NanoUsd | undefined }) =>
      unpaid === undefined
        ? 'The account still has machines.'
        : `The account still has ${formatUsdForPeople(unpaid)} in unpaid earnings.`,
    'Transfer its machines to the operator and pay out its earnings first.',
  ),
  bad_fee: invalid('A fee can have at most two decimals.'),
  bad_amount: invalid('Not a valid amount.', 'Use USD, such as 12.50.'),
  zero_amount: invalid('The amount must not be zero.'),
  refund_too_large: invalid(
    ({ max }: { readonly max: NanoUsd }) => `At most ${formatUsdExactly(max)} can be refunded.`,
  ),
  balance_too_large: invalid('The balance would exceed the largest amount the ledger can store.'),
} as const
