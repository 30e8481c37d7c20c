/** What the audit log knows of, and how people are told of it: in words, and one line for every value beside it. */
import { formatUsd, nanoUsdOf, parseUsd } from '../base/money.ts'

const deeds = {
  'account.create': 'Opened an account',
  'account.change': 'Changed an account',
  'account.restore_owner': 'Restored an owner',
  'account.credit': 'Added money',
  'balance.purchase': 'Added money (purchase)',
  'balance.credit': 'Gave money (gift)',
  'balance.adjustment': 'Adjusted a balance',
  'balance.refund': 'Refunded a rental',
  'balance.payout': 'Paid out earnings',
  'price_book.change': 'Changed the price book',
  'machine.change': 'Changed a machine',
  'host.join': 'A machine joined',
  'host.rejoin': 'A machine joined again',
  'host.add': 'Added a host',
  'host.move': 'Moved a host',
  'host.drain': 'Drained a host',
  'host.resume': 'Put a host back on sale',
  'host.quarantine': 'Put a host into quarantine',
  'host.release': 'Took a host out of quarantine',
  'host.remove': 'Took a host away',
  'join_token.create': 'Made a join token',
  'join_token.revoke': 'Revoked a join token',
  'base_image.add': 'Named a base image',
  'base_image.remove': 'Forgot a base image',
  'model.create': 'Offered a model',
  'model.change': 'Changed a model',
  'model.delete': 'Took a model away',
  'deployment.create': 'Named a deployment',
  'deployment.change': 'Changed a deployment',
  'deployment.delete': 'Took a deployment away',
  'operator_key.renew': 'Renewed the operator’s key',
  'purse.expired': 'A purse was given back',
  'purse.overdrawn': 'A purse was overdrawn',
  'request.not_settled': 'A request could not be settled',
} as const

/** `noun.verb`. */
export type AuditAction = keyof typeof deeds

/** One that an older release wrote says itself. */
export function actionWords(action: string): string {
  return (deeds as Readonly<Record<string, string>>)[action] ?? action.replaceAll(/[._]/g, ' ')
}

type Values = Readonly<Record<string, unknown>>
/** How an amount is shown. */
type Money = (usd: string) => string

const fieldNames: Readonly<Record<string, string>> = {
  suspendedAt: 'standing',
  platformFeeBp: 'supplier fee',
  creditLineUsd: 'credit line',
}

/** What matters most: how much, how many prices, which fields, or what it is about. */
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

/** `changed quota gpus` and its value, for every value there is; one of several of a kind, such as a price, in a line. */
export function auditDetails(detail: Values, money: Money): ReadonlyArray<readonly [string, string]> {
  return linesOf('', detail, money)
}

function linesOf(path: string, value: unknown, money: Money): Array<readonly [string, string]> {
  if (!isObject(value) || Object.keys(value).length === 0)
    return path === '' ? [] : [[path, valueWords(path, value, money)]]
  if (Array.isArray(value) && !value.some(isObject)) {
    return [[path, value.map((one) => valueWords(path, one, money)).join(', ')]]
  }
  if (/ \d+$/.test(path)) return [[path, rowWords(value, money)]]
  return Object.entries(value).flatMap(([name, inner]) => {
    const step = Array.isArray(value) ? String(Number.parseInt(name, 10) + 1) : plain(name)
    return linesOf(path === '' ? step : `${path} ${step}`, inner, money)
  })
}

function rowWords(row: Values, money: Money): string {
  return Object.entries(row)
    .map(([name, value]) => {
      const words = plain(name)
        .replace(/^nano_per_/, 'price a ')
        .replaceAll('_', ' ')
      return `${words} ${valueWords(name, value, money)}`
    })
    .join(', ')
}

/** `platformFeeBp` and `gpu_count` as words; amounts keep the ending by which they are known. */
function plain(name: string): string {
  if (name.endsWith('Usd') || name.startsWith('nano_per')) return name
  return name
    .replaceAll('_', ' ')
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
}

function valueWords(path: string, value: unknown, money: Money): string {
  if (value === null || value === undefined) return 'none'
  if (isObject(value) && Object.keys(value).length === 0) return 'nothing'
  if (typeof value !== 'string') return JSON.stringify(value)
  if (path.endsWith('Usd') && parseUsd(value) !== undefined) return money(value)
  return /nano_per_[a-z_]+$/.test(path) && /^\d{1,18}$/.test(value) ? money(formatUsd(nanoUsdOf(BigInt(value)))) : value
}

function isObject(value: unknown): value is Values {
  return typeof value === 'object' && value !== null
}
