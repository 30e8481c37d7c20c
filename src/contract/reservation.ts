/** A request for a large reservation. The interface has only the number; the rest is optional. */
import { z } from 'zod'
import { limits, MAX_INT32 } from '../base/limits.ts'
import { gpuType, timeText } from './shared.ts'

export const reservationRequest = z
  .object({
    gpuCount: z.number().min(1).max(MAX_INT32),
    gpuType: gpuType.optional(),
    from: timeText.optional().describe('When it should start (ISO 8601)'),
    until: timeText.optional().describe('When it should end (ISO 8601)'),
    contact: z.string().trim().min(1).max(limits.nameChars).optional().describe('E-mail address or phone number'),
    note: z.string().trim().min(1).max(limits.reasonChars).optional(),
  })
  .refine(({ from, until }) => from === undefined || until === undefined || Date.parse(until) >= Date.parse(from), {
    path: ['until'],
    message: 'Must not be before from',
  })
  .meta({ id: 'RequestReservation' })
