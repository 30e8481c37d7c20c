/** Money as people read it. The number itself is formatted in `base/money.ts`. */
import {
  formatUsd,
  formatUsdExactly,
  formatUsdForPeople,
  nanoUsdOf,
  parseUsd,
  usdFromNumber,
  type NanoUsd,
} from '../base/money.ts'

/** The forms of the API: decimal text, or a JSON number for a few prices. */
export type Usd = string | number | NanoUsd

/** `$1,234.50`, `$0.0031` */
export function money(usd: Usd): string {
  const amount = amountOf(usd)
  return amount === undefined ? `$${usd}` : formatUsdForPeople(amount)
}

/** Every digit, for tooltips: `$0.003142857`. */
export function exactMoney(usd: Usd): string {
  const amount = amountOf(usd)
  return amount === undefined ? `$${usd}` : formatUsdExactly(amount)
}

/** `+$5.00`, `-$5.00` */
export function signedMoney(usd: Usd): string {
  const amount = amountOf(usd)
  return amount !== undefined && amount > 0n ? `+${money(amount)}` : money(usd)
}

/** undefined: the account owes nothing. */
export function debtOf({ debtUsd }: { readonly debtUsd: string }): string | undefined {
  return (parseUsd(debtUsd) ?? 0n) > 0n ? debtUsd : undefined
}

export function hourlyPrice(usd: Usd): string {
  return `${money(usd)}/hr`
}

export function gpuHourPrice(usd: Usd): string {
  return `${money(usd)} per GPU-hour`
}

/** The value of an input field: `2.490000000` is `2.49`, and null is empty. */
export function editableUsd(usd: string | null): string {
  const amount = usd === null ? undefined : parseUsd(usd)
  if (amount === undefined) return ''
  const [whole = '', fraction = ''] = formatUsd(amount).split('.')
  return `${whole}.${fraction.replace(/0+$/, '').padEnd(2, '0')}`
}

function amountOf(usd: Usd): NanoUsd | undefined {
  if (typeof usd === 'number') return usdFromNumber(usd)
  return typeof usd === 'string' ? parseUsd(usd) : usd
}

/** The two parts of what a period has cost: posted to the ledger, and of what runs now since its last posting. */
export function chargedAndRunning({ spentUsd, unbilledUsd }: { spentUsd: string; unbilledUsd: string }): string {
  const charged = nanoUsdOf((parseUsd(spentUsd) ?? 0n) - (parseUsd(unbilledUsd) ?? 0n))
  return `${money(charged)} charged, ${money(unbilledUsd)} running`
}

/** Beside a sum of charges: what is missing in it. */
export function notChargedYet(unbilledUsd: string): string {
  return `${money(unbilledUsd)} running, not charged yet`
}
