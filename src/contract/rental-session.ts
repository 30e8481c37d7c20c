/** Logs of rentals. Terminals are WebSockets, not operations. */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { time } from './shared.ts'

/** Includes marketplace instances, which are identified by name. */
export const idOrNameParams = z.object({ id: z.string().min(1).max(100).describe('ID or name') })

const LOG_LINES = 1_000
const MAX_LOG_LINES = 100_000
const MAX_LOG_SEARCH_CHARS = 200

const reading = { family: 'v2', tag: 'Rentals', access: ['compute:read'] } as const

export const rentalSessionEndpoints = {
  getRentalLogs: endpoint({
    ...reading,
    method: 'GET',
    path: '/v2/rentals/{id}/logs',
    summary: 'Get the logs of a rental: its output or its console',
    description:
      'With `follow`, new output is streamed until the machine ends. The last 64 KB of a machine that has ended stay readable for 30 days. Simulated machines have no logs (400, `simulated_machine`).',
    errors: [400, 401, 403, 404, 500],
    params: idOrNameParams,
    query: z.strictObject({
      follow: z.stringbool().optional().describe('Stream new output'),
      tail: z.coerce
        .number()
        .int()
        .min(0)
        .max(MAX_LOG_LINES)
        .default(LOG_LINES)
        .describe('Number of latest lines to start with'),
      since: time.optional().describe('Only lines from this time on'),
      until: time.optional().describe('Only lines before this time'),
      search: z
        .string()
        .min(1)
        .max(MAX_LOG_SEARCH_CHARS)
        .optional()
        .describe('Only lines that contain this text, in upper or lower case; `tail` counts the matching lines'),
      timestamps: z.stringbool().optional().describe('Start each line with its time'),
      download: z.stringbool().optional().describe('Send it as a file'),
    }),
    response: z.string(),
    answers: 'text',
  }),
}
