/** Search parameters of this page. */
import { day, oneOf, searchReader } from '../../search.ts'

export const costsSearch = searchReader({
  /** First and last day, in UTC. */
  from: day,
  to: day,
  by: oneOf(['kind', 'resource', 'label', 'key', 'member']),
})
