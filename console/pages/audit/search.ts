/** Search parameters of this page. */
import { searchReader, text } from '../../search.ts'

export const auditSearch = searchReader({
  accountId: text,
  /** The page shown; the newest without it. */
  cursor: text,
})
