/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'

export const notificationsSearch = z.object({
  tab: z.enum(['all', 'unread', 'settings']).optional().catch(undefined),
})
