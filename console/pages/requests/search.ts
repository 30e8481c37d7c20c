/** Search parameters of this page. */
import { requestOperations, requestOutcomes } from '../../../src/contract/choices.ts'
import { oneOf, searchReader, text } from '../../search.ts'

export const requestsSearch = searchReader({
  model: text,
  operation: oneOf(requestOperations),
  batch: oneOf(['alone', 'lines']),
  outcome: oneOf(requestOutcomes),
  /** Which one is open. */
  request: text,
})
