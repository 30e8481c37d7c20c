/** Search parameters of this page. */
import { searchReader, text } from '../../search.ts'

export const auditSearch = searchReader({
  accountId: text,
  /** The cursor of the page; absent: the newest page. */
  cursor: text,
})
