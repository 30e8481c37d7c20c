/** Logs and GPU metrics of rentals. Terminals are WebSockets, not operations. */
import { z } from 'zod'
import { gpuMetrics } from './agent.ts'
import { endpoint } from './endpoint.ts'

const gpuMeasurement = gpuMetrics
  .omit({ index: true })
  .extend({ machineId: z.string(), gpuIndex: z.number(), at: z.string() })
  .meta({ id: 'GpuMeasurement' })

/** Includes marketplace instances, which are identified by name. */
export const idOrNameParams = z.object({ id: z.string().min(1).max(100).describe('ID or name') })

const LOG_LINES = 1_000
const MAX_LOG_LINES = 100_000

const reading = { family: 'v2', tag: 'Rentals', access: ['compute:read'] } as const

export const rentalSessionEndpoints = {
  getRentalLogs: endpoint({
    ...reading,
    method: 'GET',
    path: '/v2/alpha/on-demand/rentals/{id}/logs',
    summary: 'Get the logs of a rental or an instance: its output or its console',
    description:
      'With `follow`, new output is streamed until the machine ends. Simulated machines have no logs (400, `simulated_machine`).',
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
    }),
    response: z.string(),
    answers: 'text',
  }),
  getRentalMetrics: endpoint({
    ...reading,
    method: 'GET',
    path: '/v2/alpha/on-demand/rentals/{id}/metrics',
    summary: 'Get the latest GPU measurements of a rental or an instance',
    errors: [400, 401, 403, 404, 500],
    params: idOrNameParams,
    response: z.object({
      rentalId: z.number().describe('Number of the rental, used by events and terminals'),
      gpus: z.array(gpuMeasurement),
      reason: z.string().nullable().describe('Why there are no measurements'),
    }),
  }),
}
