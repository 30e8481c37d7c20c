/** Search parameters of this page. */
import { oneOf, searchReader } from '../../search.ts'

export const notificationsSearch = searchReader({
  tab: oneOf(['all', 'unread', 'settings']),
})
