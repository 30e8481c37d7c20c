/** Search parameters of this page. */
import { oneOf, searchReader, text } from '../../search.ts'

export const accountsSearch = searchReader({
  find: text,
  standing: oneOf(['good', 'suspended', 'supplier']),
})
