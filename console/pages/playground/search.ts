/** Search parameters of the pages that call models. */
import { searchReader, text } from '../../search.ts'

export const playgroundSearch = searchReader({
  /** The second model of a comparison. */
  with: text,
  model: text,
})
