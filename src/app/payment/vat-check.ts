/**
 * Checks VAT IDs through the processor, and keeps its customer as the billing profile says. Only a verified ID gets to the customer
 * that pays: the processor would believe another one until the tax office has answered.
 */
import { sha256 } from '../../base/id.ts'
import type { Instant } from '../../base/instant.ts'
import { nextLook, ProcessorError, type Processor } from '../../domain/processor.ts'
import {
  findBillingDetails,
  readSyncedVersion,
  saveSyncedVersion,
  saveVatCheck,
  saveVatVerdict,
  type BillingDetails,
} from '../../store/document/billing-details.ts'
import { addressOf } from '../../store/document/seller.ts'
import { transact } from '../../store/platform/database.ts'
import type { App } from '../app.ts'

/** After about three days without an answer an operator has to look. */
const MAX_LOOKS = 75

/** Returns when to look again. null: a verdict is there, or only an operator can give one. */
export async function advanceVatCheck(
  app: App,
  processor: Processor,
  details: BillingDetails,
): Promise<Instant | null> {
  const { account_id: accountId, vat_id: vatId } = details
  if (vatId === null || details.vat_state !== 'pending') return null
  const check = await checkOf(app, processor, { ...details, vat_id: vatId })
  if (check === undefined) return null
  const state = await processor.readVatCheck(check.customerId, check.checkId)
  if (state === 'verified' || state === 'unverified') {
    await transact(app.database, (tx) => saveVatVerdict(tx, { accountId, vatId, state, by: 'processor' }))
    return null
  }
  if (state === undefined || state === 'unavailable' || details.attempts > MAX_LOOKS) return null
  return nextLook(app.clock.now(), details.attempts)
}

async function checkOf(
  app: App,
  processor: Processor,
  details: BillingDetails & { readonly vat_id: string },
): Promise<{ readonly customerId: string; readonly checkId: string } | undefined> {
  const { account_id: accountId, vat_id: vatId, check_customer_id: customerId, check_id: checkId } = details
  if (customerId !== null && checkId !== null) return { customerId, checkId }
  try {
    // The same ID again, after another one, is a new check.
    const key = `vat:${sha256(`${accountId} ${vatId} ${details.version}`).toString('hex').slice(0, 40)}`
    const check = await processor.startVatCheck({ key, accountId, vatId })
    if (check !== undefined) await saveVatCheck(app.database.db, { accountId, vatId, ...check })
    return check
  } catch (error) {
    if (!(error instanceof ProcessorError && error.isFinal)) throw error
    app.warn?.(error, 'the processor does not check a VAT ID; an operator can')
    return undefined
  }
}

/** Before each payment: the processor decides about the tax by what its customer has then. */
export async function syncCustomer(
  app: App,
  processor: Processor,
  accountId: string,
  customerId: string,
): Promise<void> {
  const { db } = app.database
  const details = await findBillingDetails(db, accountId)
  if (details === undefined || (await readSyncedVersion(db, customerId)) === details.version) return
  const { name, version } = details
  const vatId = details.vat_state === 'verified' ? details.vat_id : null
  await processor.saveCustomer(customerId, { name, address: addressOf(details), vatId })
  await saveSyncedVersion(db, customerId, version)
}
