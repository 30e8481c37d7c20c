/** Search parameters of this page: what a tried sign-in at the account's provider came to. */
import { searchReader, text } from '../../search.ts'

export const membersSearch = searchReader({ tested: text, error: text, provider: text })
