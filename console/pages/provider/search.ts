/** Search parameters of this page. */
import { oneOf, searchReader, text } from '../../search.ts'

const providerTabs = ['offers', 'margin', 'bills'] as const
export type ProviderTab = (typeof providerTabs)[number]

export const providerSearch = searchReader({
  tab: oneOf(providerTabs),
  by: oneOf(['day', 'rental']),
  /** The imported bill that is compared. */
  bill: text,
})
