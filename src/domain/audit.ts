/** Actions in the audit log, their labels, and their details as text. */
import { formatUsd, nanoUsdOf, parseUsd } from '../base/money.ts'

const actionLabels = {
  'account.create': 'Created an account',
  'account.change': 'Changed an account',
  'account.restore_owner': 'Restored an owner',
  'terms.publish': 'Published terms',
  'person.disable': 'Disabled a person',
  'person.reset_factors': 'Removed the passkeys of a person',
  'person.enable': 'Enabled a person',
  'account.set_sso': 'Set the sign-in provider of an account',
  'account.require_sso': 'Changed the required sign-in of an account',
  'account.remove_sso': 'Removed the sign-in provider of an account',
  'sso_provider.add': 'Added a sign-in provider',
  'sso_provider.change': 'Changed a sign-in provider',
  'sso_provider.remove': 'Removed a sign-in provider',
  'account.credit': 'Added money',
  'balance.purchase': 'Added money (payment)',
  'payment.refund': 'Refunded a payment',
  'auto_top_up.set': 'Turned automatic top-up on',
  'auto_top_up.off': 'Turned automatic top-up off',
  'balance.credit': 'Added money (credit)',
  'balance.adjustment': 'Adjusted a balance',
  'balance.refund': 'Refunded a rental',
  'balance.payout': 'Paid out earnings',
  'payout.details': 'Changed where earnings are paid',
  'payout.approve': 'Approved a payout run',
  'payout.cancel': 'Canceled a payout run',
  'payout.export': 'Exported a bank file',
  'payout.paid': 'Settled a payout as paid',
  'payout.failed': 'Settled a payout as failed',
  'price_book.change': 'Changed the price book',
  'machine.change': 'Changed a machine',
  'host.join': 'Host joined',
  'host.rejoin': 'Host joined again',
  'host.add': 'Added a host',
  'host.move': 'Moved a host',
  'host.drain': 'Drained a host',
  'host.resume': 'Resumed a host',
  'host.quarantine': 'Quarantined a host',
  'host.release': 'Released a host from quarantine',
  'host.remove': 'Removed a host',
  'join_token.create': 'Created a join token',
  'join_token.revoke': 'Revoked a join token',
  'base_image.add': 'Added a base image',
  'base_image.remove': 'Deleted a base image',
  'model.create': 'Added a model',
  'model.change': 'Changed a model',
  'model.delete': 'Deleted a model',
  'deployment.create': 'Added a deployment',
  'deployment.change': 'Changed a deployment',
  'deployment.delete': 'Deleted a deployment',
  'managed_deployment.create': 'Created a managed deployment',
  'managed_deployment.change': 'Changed a managed deployment',
  'managed_deployment.delete': 'Deleted a managed deployment',
  'operator_key.renew': 'Renewed the operator key',
  'secret_key.change': 'Changed the secret key',
  'provider.add': 'Added a provider account',
  'provider.change': 'Changed a provider account',
  'provider.rotate': 'Replaced the credentials of a provider account',
  'provider.remove': 'Removed a provider account',
  'provider.import_bill': 'Imported a bill of a provider account',
  'provider.delete_bill': 'Deleted an imported bill',
  'mcp.call': 'Called a tool (MCP)',
  'purse.expired': 'Purse expired',
  'purse.overdrawn': 'Purse overdrawn',
  'request.not_settled': 'Request not settled',
} as const

/** `noun.verb`. */
export type AuditAction = keyof typeof actionLabels

/** Actions of older releases are shown unchanged. */
export function actionLabel(action: string): string {
  return (actionLabels as Readonly<Record<string, string>>)[action] ?? action.replaceAll(/[._]/g, ' ')
}

type Values = Readonly<Record<string, unknown>>
/** How an amount is shown. */
type Money = (usd: string) => string

const fieldNames: Readonly<Record<string, string>> = {
  suspendedAt: 'status',
  platformFeeBp: 'platform fee',
  creditLineUsd: 'credit line',
}

/** The amount, the number of prices, the changed fields, or the subject. */
export function auditSummary(
  { detail, subject }: { readonly detail: Values; readonly subject: string | null },
  money: Money,
): string {
  const { amountUsd, rentalId, gpus, storage, reserveOptions, changed, name } = detail
  if (typeof amountUsd === 'string') {
    return typeof rentalId === 'number' ? `${money(amountUsd)} for rental ${rentalId}` : money(amountUsd)
  }
  if (Array.isArray(gpus) && Array.isArray(storage) && Array.isArray(reserveOptions)) {
    const rows = gpus.length + storage.length + reserveOptions.length
    return `${rows} ${rows === 1 ? 'price' : 'prices'}`
  }
  if (typeof name === 'string') return name
  if (!isObject(changed)) return subject ?? ''
  return Object.keys(changed)
    .map((field) => fieldNames[field] ?? field)
    .join(', ')
}

/** One line per value, such as `changed quota gpus`; a row of a list, such as a price, is one line. */
export function auditDetails(detail: Values, money: Money): ReadonlyArray<readonly [string, string]> {
  return linesOf('', detail, money)
}

function linesOf(path: string, value: unknown, money: Money): Array<readonly [string, string]> {
  if (!isObject(value) || Object.keys(value).length === 0)
    return path === '' ? [] : [[path, valueText(path, value, money)]]
  if (Array.isArray(value) && !value.some(isObject)) {
    return [[path, value.map((one) => valueText(path, one, money)).join(', ')]]
  }
  if (/ \d+$/.test(path)) return [[path, rowText(value, money)]]
  return Object.entries(value).flatMap(([name, inner]) => {
    const step = Array.isArray(value) ? String(Number.parseInt(name, 10) + 1) : plain(name)
    return linesOf(path === '' ? step : `${path} ${step}`, inner, money)
  })
}

function rowText(row: Values, money: Money): string {
  return Object.entries(row)
    .map(([name, value]) => {
      const label = plain(name)
        .replace(/^nano_per_/, 'price per ')
        .replaceAll('_', ' ')
      return `${label} ${valueText(name, value, money)}`
    })
    .join(', ')
}

/** `platformFeeBp` → `platform fee bp`. Amounts keep the names by which `valueText` finds them. */
function plain(name: string): string {
  if (name.endsWith('Usd') || name.startsWith('nano_per')) return name
  return name
    .replaceAll('_', ' ')
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
}

function valueText(path: string, value: unknown, money: Money): string {
  if (value === null || value === undefined) return 'none'
  if (isObject(value) && Object.keys(value).length === 0) return 'nothing'
  if (typeof value !== 'string') return JSON.stringify(value)
  if (path.endsWith('Usd') && parseUsd(value) !== undefined) return money(value)
  return /nano_per_[a-z_]+$/.test(path) && /^\d{1,18}$/.test(value) ? money(formatUsd(nanoUsdOf(BigInt(value)))) : value
}

function isObject(value: unknown): value is Values {
  return typeof value === 'object' && value !== null
}
