/** Search parameters of this page. Invalid values are ignored. */
import { z } from 'zod'
import { requestOutcome } from '../../../src/contract/request-log.ts'

export const requestsSearch = z.object({
  model: z.string().min(1).max(200).optional().catch(undefined),
  outcome: requestOutcome.optional().catch(undefined),
  /** Which one is open. */
  request: z.string().min(1).max(100).optional().catch(undefined),
})
