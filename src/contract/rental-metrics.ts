/** The usage of rentals: the latest measurements, their history, and an export for Prometheus. */
import { z } from 'zod'
import { gpuMetrics } from './agent.ts'
import { endpoint } from './endpoint.ts'
import { idOrNameParams } from './rental-session.ts'
import { time, timestamp } from './shared.ts'

/** In the order in which values are stored: add new ones at the end, with a new version of the format. */
export const machineMetricNames = [
  'cpuPercent',
  'memoryUsedMib',
  'diskUsedMib',
  'networkRxBytesPerSecond',
  'networkTxBytesPerSecond',
] as const
export const gpuMetricNames = [
  'gpuUtilizationPercent',
  'gpuMemoryUsedMib',
  'gpuTemperatureCelsius',
  'gpuPowerWatts',
] as const
const metricNames = [...gpuMetricNames, ...machineMetricNames] as const
export type MetricName = (typeof metricNames)[number]

/** Points of one series in an answer. */
export const MAX_POINTS = 2_000
const MIN_STEP_SECONDS = 10
const MAX_STEP_SECONDS = 86_400
/** Rentals whose sparklines one request returns. */
const MAX_SPARKLINES = 100
export const SPARKLINE_MINUTES = 60

const gpuMeasurement = gpuMetrics
  .omit({ index: true })
  .extend({ machineId: z.string(), gpuIndex: z.number(), at: timestamp })
  .meta({ id: 'GpuMeasurement' })

const machineMeasurement = z
  .object({
    machineId: z.string(),
    at: timestamp,
    cpuPercent: z.number().nullable().describe('Of the CPUs that the rental has'),
    memoryUsedMib: z.number().nullable(),
    memoryTotalMib: z.number().nullable(),
    diskUsedMib: z.number().nullable(),
    diskTotalMib: z.number().nullable(),
    networkRxBytesPerSecond: z.number().nullable().describe('Received'),
    networkTxBytesPerSecond: z.number().nullable().describe('Sent'),
  })
  .meta({ id: 'MachineMeasurement' })

const value = z.number().nullable()

const metricSeries = z
  .object({
    metric: z.enum(metricNames),
    machineIndex: z.number().describe('Position of the machine in the rental; 0 is the first'),
    gpuIndex: z.number().nullable().describe('null: of the whole machine'),
    average: z.array(value).describe('One value per step; null: not measured'),
    maximum: z.array(value),
  })
  .meta({ id: 'MetricSeries' })

const metricHistory = z
  .object({
    from: timestamp.describe('Time of the first value'),
    to: timestamp,
    stepSeconds: z.number(),
    series: z.array(metricSeries),
  })
  .meta({ id: 'MetricHistory' })

const reading = { family: 'v2', tag: 'Rentals', access: ['compute:read'] } as const

export const rentalMetricsEndpoints = {
  getRentalMetrics: endpoint({
    ...reading,
    method: 'GET',
    path: '/v2/rentals/{id}/metrics',
    summary: 'Get the latest measurements of a rental, or their history',
    description:
      'With `from`, the answer has `history`: averages and maxima for each step. Samples are taken every 10 seconds and kept for 24 hours; summaries of five minutes are kept for 30 days.',
    errors: [400, 401, 403, 404, 500],
    params: idOrNameParams,
    query: z.strictObject({
      from: time.optional().describe('Start of the history'),
      to: time.optional().describe('End of the history; default: now'),
      step: z.coerce
        .number()
        .int()
        .min(MIN_STEP_SECONDS)
        .max(MAX_STEP_SECONDS)
        .optional()
        .describe(`Seconds between values; default: about 300 values. At most ${MAX_POINTS} values are returned`),
    }),
    response: z.object({
      rentalId: z.number().describe('Number of the rental, used by events and terminals'),
      gpus: z.array(gpuMeasurement),
      machines: z.array(machineMeasurement),
      reason: z.string().nullable().describe('Why there are no measurements'),
      simulated: z.boolean().describe('The values are made up'),
      history: metricHistory.optional(),
    }),
  }),
  listRentalMetrics: endpoint({
    ...reading,
    method: 'GET',
    path: '/v2/rental-metrics',
    summary: 'List the GPU utilization of several rentals over the last hour, for sparklines',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      ids: z
        .string()
        .regex(/^[\w-]{1,100}(,[\w-]{1,100})*$/, 'Must be IDs or names, separated by commas')
        .refine((text) => text.split(',').length <= MAX_SPARKLINES, `At most ${MAX_SPARKLINES} rentals`)
        .describe('IDs or names, separated by commas. Unknown ones are left out of the answer'),
    }),
    response: z.object({
      from: timestamp.describe('Time of the first value'),
      stepSeconds: z.number(),
      rentals: z.array(
        z.object({
          rentalId: z.number(),
          name: z.string(),
          simulated: z.boolean(),
          gpuUtilizationPercent: z.array(value).describe('Average of all GPUs per minute; null: not measured'),
        }),
      ),
    }),
  }),
  exportMetrics: endpoint({
    ...reading,
    method: 'GET',
    path: '/v2/metrics',
    tag: 'Rentals',
    summary: 'Export the latest measurements of all active rentals in Prometheus text format',
    errors: [400, 401, 403, 500],
    response: z.string(),
    answers: 'text',
  }),
}
