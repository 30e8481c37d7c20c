/** Search parameters of this page. */
import { requestOutcomes } from '../../../src/contract/choices.ts'
import { oneOf, searchReader, text } from '../../search.ts'

export const requestsSearch = searchReader({
  model: text,
  outcome: oneOf(requestOutcomes),
  /** Which one is open. */
  request: text,
})
