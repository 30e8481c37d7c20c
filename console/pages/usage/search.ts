/** Search parameters of this page. */
import { day, oneOf, searchReader } from '../../search.ts'

export const usageSearch = searchReader({
  /** First and last day, UTC. */
  from: day,
  to: day,
  by: oneOf(['day', 'model', 'key', 'rental']),
})
