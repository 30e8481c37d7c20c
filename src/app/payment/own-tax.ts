/** The tax of a payment by the operator's own rates. It is decided when the payment begins, and stays. */
import type { NanoUsd } from '../../base/money.ts'
import { taxBasisOf, taxOf, type OwnTax } from '../../domain/tax.ts'
import { findBillingDetails } from '../../store/document/billing-details.ts'
import { findSeller, listTaxRates } from '../../store/document/seller.ts'
import type { Db } from '../../store/platform/database.ts'

/** null: the processor decides. */
export async function ownTaxOf(db: Db, accountId: string, amount: NanoUsd): Promise<OwnTax | null> {
  const seller = await findSeller(db)
  if (seller?.tax_by !== 'rates') return null
  const details = await findBillingDetails(db, accountId)
  const rates = new Map((await listTaxRates(db)).map((rate) => [rate.country, rate]))
  const buyer = details && {
    country: details.country,
    verifiedVatId: details.vat_state === 'verified' ? details.vat_id : null,
  }
  const basis = taxBasisOf(seller.country, buyer, rates)
  return { basis, tax: taxOf(amount, basis) }
}
