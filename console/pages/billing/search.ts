/** Search parameters of this page. */
import { matching, oneOf, searchReader } from '../../search.ts'

export const billingSearch = searchReader({
  tab: oneOf(['statement', 'changes', 'budgets', 'invoices', 'payments', 'purchases']),
  /** The payment that a customer returns from. */
  payment: matching(/^pay_[A-Za-z0-9]{1,60}$/),
  /** Month of the statement, such as 2026-11. */
  month: matching(/^\d{4}-(0[1-9]|1[0-2])$/),
})
