/**
 * Tax by the operator's own rates. The rate of the buyer's country counts; a company with a verified VAT ID of another country
 * owes the tax itself (reverse charge). An ID that nobody has verified changes nothing.
 */
import { floorDivide, nanoUsdOf, usd, zeroUsd, type NanoUsd } from '../base/money.ts'
import { countryOfVatId } from './vat-id.ts'

/** How the tax of a payment was decided; it is stored with the payment, so later changes do not concern it. */
export interface TaxBasis {
  readonly by: 'processor' | 'rates'
  /** `none`: not taxed there. */
  readonly rule: 'rate' | 'reverse_charge' | 'none'
  /** null: the processor did not say. */
  readonly country: string | null
  /** As it is printed, such as VAT. null: there is no tax. */
  readonly name: string | null
  /** Thousandths of a percent. null: several rates, or not said. */
  readonly percentMilli: number | null
  /** The verified VAT ID of a reverse charge. */
  readonly vatId: string | null
}

/** Decided by the operator's own rates. */
export interface OwnTax {
  readonly tax: NanoUsd
  readonly basis: TaxBasis
}

export interface TaxRate {
  readonly country: string
  readonly name: string
  readonly percentMilli: number
}

export interface TaxedBuyer {
  readonly country: string
  /** null: none, or not verified. */
  readonly verifiedVatId: string | null
}

/** A buyer who has not said where they are is taxed as one in the seller's country. */
export function taxBasisOf(
  sellerCountry: string,
  buyer: TaxedBuyer | undefined,
  rates: ReadonlyMap<string, TaxRate>,
): TaxBasis {
  const country = buyer?.country ?? sellerCountry
  const vatId = buyer?.verifiedVatId ?? null
  if (vatId !== null && countryOfVatId(vatId) !== sellerCountry)
    return { by: 'rates', rule: 'reverse_charge', country, name: null, percentMilli: 0, vatId }
  const rate = rates.get(country)
  if (rate === undefined) return { by: 'rates', rule: 'none', country, name: null, percentMilli: 0, vatId: null }
  return { by: 'rates', rule: 'rate', country, name: rate.name, percentMilli: rate.percentMilli, vatId: null }
}

const CENT = usd('0.01')
const HUNDRED_PERCENT = 100_000n

/** Rounded half up to the cent. */
export function taxOf(amount: NanoUsd, { percentMilli }: TaxBasis): NanoUsd {
  if (percentMilli === null || percentMilli === 0) return zeroUsd
  const cents = floorDivide(2n * amount * BigInt(percentMilli) + HUNDRED_PERCENT * CENT, 2n * HUNDRED_PERCENT * CENT)
  return nanoUsdOf(cents * CENT)
}

/** `VAT 19%`, `Sales tax 8.875%`. */
export function taxLabel({ rule, name, percentMilli }: TaxBasis): string {
  if (rule === 'reverse_charge') return 'Reverse charge 0%'
  if (rule === 'none') return 'Tax 0%'
  return [name ?? 'Tax', percentMilli === null ? undefined : `${formatPercent(percentMilli)}%`]
    .filter(Boolean)
    .join(' ')
}

/** `19`, `8.875`. */
export function formatPercent(percentMilli: number): string {
  return String(percentMilli / 1_000)
}

/** undefined: not a percentage with at most three decimals. */
export function parsePercent(text: string): number | undefined {
  const [, whole, fraction = ''] = /^(\d{1,3})(?:\.(\d{1,3}))?$/.exec(text) ?? []
  if (whole === undefined) return undefined
  const percentMilli = Number(whole) * 1_000 + Number(fraction.padEnd(3, '0'))
  return percentMilli >= 1 && percentMilli <= 100_000 ? percentMilli : undefined
}
