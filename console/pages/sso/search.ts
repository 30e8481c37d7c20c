/** Search parameters of this page: what a tried sign-in came to. */
import { searchReader, text } from '../../search.ts'

export const ssoSearch = searchReader({ tested: text, error: text, provider: text })
