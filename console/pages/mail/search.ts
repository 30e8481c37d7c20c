/** Search parameters of this page. */
import { oneOf, searchReader, text } from '../../search.ts'

export const mailSearch = searchReader({ find: text, state: oneOf(['pending', 'sent', 'failed', 'withheld']) })
