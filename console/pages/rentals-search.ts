/** What stands in the address of this page. A value that cannot be right is left out. */
import { z } from 'zod'

export const rentalsSearch = z.object({})
