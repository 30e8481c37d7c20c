/** The billing profile of an account, and what somebody finds out about its VAT ID. */
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import type { PostalAddress } from '../../domain/document.ts'
import { countryOfVatId, parseVatId } from '../../domain/vat-id.ts'
import {
  findBillingDetails,
  saveBillingDetails,
  saveVatVerdict,
  type BillingDetails,
} from '../../store/document/billing-details.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'

export interface ProfileOrder {
  readonly name: string
  readonly address: PostalAddress
  readonly vatId: string | null
  readonly poNumber: string | null
}

export async function setBillingProfile(
  app: App,
  tx: Tx,
  actor: Actor,
  order: ProfileOrder,
): Promise<Result<BillingDetails>> {
  const vatId = order.vatId === null ? null : parseVatId(order.vatId)
  if (vatId === undefined) return failField(['vatId'], 'vat_id_invalid')
  if (vatId !== null && countryOfVatId(vatId) !== order.address.country) return failField(['vatId'], 'vat_id_country')
  await saveBillingDetails(tx, { ...order, accountId: actor.accountId, vatId }, app.processor !== undefined)
  const details = await findBillingDetails(tx.db, actor.accountId)
  if (details === undefined) throw new Error('the billing profile was not written')
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'billing_profile.set',
    accountId: actor.accountId,
    subject: actor.accountId,
    detail: { name: details.name, country: details.country, vatId: details.vat_id },
  })
  tx.wake.add('vat-ids')
  return ok(details)
}

export interface VatVerdict {
  readonly accountId: string
  readonly vatId: string
  readonly isVerified: boolean
  readonly reason: string
}

/** An operator has asked the tax office. */
export async function checkVatId(tx: Tx, actor: Actor, verdict: VatVerdict): Promise<Result<BillingDetails>> {
  const { accountId, vatId, isVerified, reason } = verdict
  const state = isVerified ? 'verified' : 'unverified'
  if (!(await saveVatVerdict(tx, { accountId, vatId, state, by: actor.keyId }))) return fail('vat_id_missing')
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'vat_id.checked',
    accountId,
    subject: vatId,
    reason,
    detail: { state },
  })
  const details = await findBillingDetails(tx.db, accountId)
  return details === undefined ? fail('vat_id_missing') : ok(details)
}
