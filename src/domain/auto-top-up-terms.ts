/** The agreement to an automatic top-up. Pages, commands and the record of the consent have the same sentence. */
import { formatUsdForPeople, type NanoUsd } from '../base/money.ts'

/** The last failure switches it off. */
export const MAX_FAILURES = 3

export interface AutoTopUpTerms {
  readonly below: NanoUsd
  readonly amount: NanoUsd
  readonly cap: NanoUsd
}

export function consentText({ below, amount, cap }: AutoTopUpTerms, card: string): string {
  return `Charge ${card} ${formatUsdForPeople(amount)} plus tax whenever the available balance is below ${formatUsdForPeople(below)}, at most once per hour and ${formatUsdForPeople(cap)} per month including tax, until this is turned off.`
}

export function cardText({ brand, last4 }: { readonly brand: string; readonly last4: string }): string {
  return `${brand.charAt(0).toUpperCase()}${brand.slice(1)} …${last4}`
}
