/** Search parameters of this page. */
import { searchReader, text } from '../../search.ts'

export const deploySearch = searchReader({
  /** The model of the catalog to start with. */
  model: text,
})
