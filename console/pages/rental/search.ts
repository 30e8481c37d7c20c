/** Search parameters of this page. */
import { oneOf, searchReader } from '../../search.ts'

const rentalTabs = ['state', 'metrics', 'terminal', 'logs', 'volumes', 'events'] as const
export type RentalTab = (typeof rentalTabs)[number]

export const rentalSearch = searchReader({ tab: oneOf(rentalTabs) })
