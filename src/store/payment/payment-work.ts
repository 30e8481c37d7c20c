/** Whether the loop `payments` has work. */
import { sql } from 'kysely'
import type { DueWork } from '../platform/due-work.ts'
import { hasDuePayment } from './payment.ts'
import { hasDueRefund } from './payment-refund.ts'
import { hasDueEvent } from './processor-event.ts'

export const hasPaymentWork: DueWork = (query) =>
  sql<boolean>`(${hasDueEvent(query)} or ${hasDuePayment(query)} or ${hasDueRefund(query)})`
