/** The operator's company and tax rates. Changes count for later payments and documents. */
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { formatPercent, parsePercent, type TaxRate } from '../../domain/tax.ts'
import { deleteTaxRate, listTaxRates, saveSeller, saveTaxRate, type NewSeller } from '../../store/document/seller.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Actor } from '../app.ts'

export async function setSeller(tx: Tx, actor: Actor, seller: NewSeller): Promise<void> {
  await saveSeller(tx, seller)
  const { address, ...rest } = seller
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'seller.set',
    subject: seller.name,
    detail: { ...rest, ...address },
  })
}

export async function setTaxRate(
  tx: Tx,
  actor: Actor,
  { country, name, percent }: { readonly country: string; readonly name: string; readonly percent: string },
): Promise<Result<TaxRate>> {
  const percentMilli = parsePercent(percent)
  if (percentMilli === undefined) return failField(['percent'], 'percent_range')
  const rate = { country, name, percentMilli }
  await saveTaxRate(tx, rate)
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'tax_rate.set',
    subject: country,
    detail: { name, percent: formatPercent(percentMilli) },
  })
  return ok(rate)
}

export async function removeTaxRate(tx: Tx, actor: Actor, country: string): Promise<Result<TaxRate>> {
  const rate = (await listTaxRates(tx.db)).find((one) => one.country === country)
  if (rate === undefined || !(await deleteTaxRate(tx, country))) return fail('tax_rate_not_found')
  await writeAudit(tx, { actor: actor.keyId, action: 'tax_rate.delete', subject: country })
  return ok(rate)
}
