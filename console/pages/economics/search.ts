/** Search parameters of this page. */
import { day, searchReader } from '../../search.ts'

export const economicsSearch = searchReader({
  /** First and last day, in UTC. */
  from: day,
  to: day,
})
