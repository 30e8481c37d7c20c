/** Search parameters of this page. */
import { rentalStates } from '../../../src/contract/rental-state.ts'
import { oneOf, searchReader, text } from '../../search.ts'

export const rentalsSearch = searchReader({
  tab: oneOf(['ended']),
  kind: oneOf(['virtual-machine', 'bare-metal', 'container']),
  state: oneOf(rentalStates),
  /** Part of a name or label. */
  find: text,
})
