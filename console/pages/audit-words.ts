/** What was done, in words; what the log keeps beside it, one line a value. */
import type { Reply } from '../../src/client/client.ts'
import { nanoUsdOf, parseUsd } from '../../src/base/money.ts'
import { money } from '../ui/format.ts'

export type AuditRecord = Reply<'listAudit'>['records'][number]

const actions: Readonly<Record<string, string>> = {
  'account.create': 'Opened an account',
  'account.change': 'Changed an account',
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
}

/** One that has no words here says itself. */
export function actionWords(action: string): string {
  return actions[action] ?? action.replaceAll(/[._]/g, ' ')
}

const LINES_SHOWN = 200

/** `changed quota gpus` and its value, for every value there is. */
export function detailLines(detail: Readonly<Record<string, unknown>>): ReadonlyArray<readonly [string, string]> {
  const lines: Array<readonly [string, string]> = []
  const walk = (path: string, value: unknown): void => {
    if (lines.length >= LINES_SHOWN) return
    if (isRow(path, value)) lines.push([path, rowWords(value)])
    else if (typeof value === 'object' && value !== null && Object.keys(value).length > 0) {
      for (const [name, inner] of Object.entries(value)) {
        const step = Array.isArray(value) ? String(Number.parseInt(name, 10) + 1) : plain(name)
        walk(path === '' ? step : `${path} ${step}`, inner)
      }
    } else lines.push([path, valueWords(path, value)])
  }
  walk('', detail)
  return lines.filter(([path]) => path !== '')
}

/** `platformFeeBp` and `gpu_count` as words; amounts keep the ending by which they are known. */
function plain(name: string): string {
  if (name.endsWith('Usd') || name.startsWith('nano_per')) return name
  return name
    .replaceAll('_', ' ')
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .toLowerCase()
}

/** One of several of a kind, such as a price: it reads best in one line. */
function isRow(path: string, value: unknown): value is Readonly<Record<string, unknown>> {
  return / \d+$/.test(path) && typeof value === 'object' && value !== null
}

function rowWords(row: Readonly<Record<string, unknown>>): string {
  return Object.entries(row)
    .map(
      ([name, value]) =>
        `${plain(name)
          .replace(/^nano_per_/, 'price a ')
          .replaceAll('_', ' ')} ${valueWords(name, value)}`,
    )
    .join(', ')
}

function valueWords(path: string, value: unknown): string {
  if (value === null || value === undefined) return 'none'
  if (typeof value === 'string' && path.endsWith('Usd') && parseUsd(value) !== undefined) return money(value)
  if (typeof value === 'string' && /nano_per_[a-z_]+$/.test(path) && /^\d{1,18}$/.test(value))
    return money(nanoUsdOf(BigInt(value)))
  if (typeof value === 'object' && Object.keys(value).length === 0) return 'nothing'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** What matters most, for the table. */
export function summaryOf({ detail, subject }: AuditRecord): string {
  const amount = detail['amountUsd']
  if (typeof amount === 'string') return money(amount)
  const { gpus, storage, reserveOptions } = detail
  if (Array.isArray(gpus) && Array.isArray(storage) && Array.isArray(reserveOptions)) {
    const rows = gpus.length + storage.length + reserveOptions.length
    return `${rows} ${rows === 1 ? 'price' : 'prices'}`
  }
  const { changed, name } = detail
  if (typeof name === 'string') return name
  if (typeof changed === 'object' && changed !== null) return Object.keys(changed).map(fieldWords).join(', ')
  return subject ?? ''
}

const fields: Readonly<Record<string, string>> = {
  suspendedAt: 'standing',
  platformFeeBp: 'supplier fee',
}

function fieldWords(name: string): string {
  return fields[name] ?? name
}
