/** What stands in the address of the chat, picture and speech pages. A value that cannot be right is left out. */
import { z } from 'zod'

export const playgroundSearch = z.object({ model: z.string().min(1).max(200).optional().catch(undefined) })
