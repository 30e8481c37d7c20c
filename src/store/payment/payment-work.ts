/** Whether the loop `payments` has work. */
import { sql } from 'kysely'
import type { DueWork } from '../platform/due-work.ts'
import { hasDuePayment } from './payment.ts'
import { hasDueRefund } from './payment-refund.ts'
import { hasDuePayout } from './payout.ts'
import { hasDuePayoutAccount } from './payout-account.ts'
import { hasDueEvent } from './processor-event.ts'

export const hasPaymentWork: DueWork = (query) =>
  sql<boolean>`(${hasDueEvent(query)} or ${hasDuePayment(query)} or ${hasDueRefund(query)}
    or ${hasDuePayout(query)} or ${hasDuePayoutAccount(query)})`
