/** Looking into what is rented: its log, and what its GPUs measure. A terminal is a WebSocket, and no operation. */
import { z } from 'zod'
import { gpuMetrics } from './agent.ts'
import { endpoint } from './endpoint.ts'

const gpuMeasurement = gpuMetrics
  .omit({ index: true })
  .extend({ machineId: z.string(), gpuIndex: z.number(), at: z.string() })
  .meta({ id: 'GpuMeasurement' })

/** Also instances of the marketplace, which are known by their names. */
export const idOrNameParams = z.object({ id: z.string().min(1).max(100).describe('Its id, or its name') })

const LOG_LINES = 1_000
const MAX_LOG_LINES = 100_000

const reading = { family: 'v2', tag: 'Rentals', access: ['compute:read'] } as const

export const rentalSessionEndpoints = {
  getRentalLogs: endpoint({
    ...reading,
    method: 'GET',
    path: '/v2/alpha/on-demand/rentals/{id}/logs',
    summary: 'What a rental or an instance has written: its output, or its console',
    description:
      'With `follow` the answer goes on as it writes, until it ends. Simulated machines write no logs: 400, `simulated_machine`.',
    errors: [400, 401, 403, 404, 500],
    params: idOrNameParams,
    query: z.strictObject({
      follow: z.stringbool().optional().describe('Go on with what it writes from now on'),
      tail: z.coerce
        .number()
        .int()
        .min(0)
        .max(MAX_LOG_LINES)
        .default(LOG_LINES)
        .describe('How many of the last lines to begin with'),
    }),
    response: z.string(),
    answers: 'text',
  }),
  getRentalMetrics: endpoint({
    ...reading,
    method: 'GET',
    path: '/v2/alpha/on-demand/rentals/{id}/metrics',
    summary: 'The last measurements of the GPUs of a rental or an instance',
    errors: [400, 401, 403, 404, 500],
    params: idOrNameParams,
    response: z.object({
      rentalId: z.number().describe('Its number, under which events speak of it and terminals are opened'),
      gpus: z.array(gpuMeasurement),
      reason: z.string().nullable().describe('Why there is nothing, in a sentence'),
    }),
  }),
}
