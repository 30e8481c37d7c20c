/** Search parameters of this page. The types of events with their sentences would load with every page; this one checks them. */
import { matching, searchReader } from '../../search.ts'

export const eventsSearch = searchReader({ type: matching(/^[a-z_.]{1,60}$/) })
