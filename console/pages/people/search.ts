/** Search parameters of this page. */
import { searchReader, text } from '../../search.ts'

export const peopleSearch = searchReader({ find: text })
