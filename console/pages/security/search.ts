/** Search parameters of this page: what connecting a provider came to. */
import { searchReader, text } from '../../search.ts'

export const securitySearch = searchReader({ connected: text, error: text, provider: text })
