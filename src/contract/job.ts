/** Jobs: commands that run once, on the cheapest GPUs that fit, and whose output is kept. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { attemptOutcomes, describeJobStates, jobStates } from './job-state.ts'
import { imageName, imageTag } from './rental-order.ts'
import { complete, nonNegativeUsd, pageQuery, priceUsd, textIdParams, timestamp, usdAmount } from './shared.ts'
import { orderFields } from './workload.ts'

export const jobGpus = z.strictObject({
  model: z.string().min(1).max(100).optional().describe('Name of the GPU, or a part of it; default: any'),
  minMemoryGb: z.number().min(0).max(10_000).optional().describe('Memory that each GPU needs; default: any'),
  count: z.int().min(1).max(limits.jobGpus).default(1),
  region: z.string().min(1).max(100).optional().describe('Where it may run; default: anywhere'),
  machineId: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .describe('Only this machine. A simulated machine is never chosen otherwise'),
})

const { env, files, command, args, shmGb, diskGb, registryCredentialId, volumes } = orderFields

function jsonBytes(value: unknown): number {
  return new TextEncoder().encode(JSON.stringify(value)).length
}

const input = z
  .unknown()
  .refine((value) => value === undefined || jsonBytes(value) <= limits.workloadTextBytes, {
    message: `Must have at most ${limits.workloadTextBytes} bytes as JSON`,
  })
  .describe('Any JSON value, in the machine as `/berth/input.json`')

/** The program and its GPUs, which are stored with the job. */
const specFields = {
  image: z.strictObject({ name: imageName, tag: imageTag.optional() }),
  command,
  args,
  env,
  files,
  volumes,
  registryCredentialId,
  diskGb,
  shmGb,
  gpus: jobGpus.default({ count: 1 }),
  maxPricePerHourUsd: priceUsd.in
    .optional()
    .describe('Highest price per hour of a machine with these GPUs (USD); default: no cap'),
}
/** `inputText` is the input as JSON text, because PostgreSQL's JSON type rejects some valid input. */
export const jobSpec = z.object({ ...specFields, inputText: z.string().optional() })
export type JobSpec = z.output<typeof jobSpec>

const array = z
  .strictObject({
    count: z.int().min(1).max(limits.jobTasks).describe('Number of tasks, with the indexes 0 to `count` - 1'),
    parallel: z.int().min(1).max(limits.jobTasks).optional().describe('Most tasks at a time; default: all'),
  })
  .describe('Runs the command once for each index, which it finds in `BERTH_JOB_INDEX`')

/** The fields of an order, which schedules share. */
export const jobOrderFields = {
  name: z.string().trim().min(1).max(limits.nameChars).optional(),
  ...specFields,
  input: input.optional(),
  array: array.optional(),
  maxCostUsd: nonNegativeUsd.optional().describe('Most that all tasks together may cost (USD); default: no limit'),
  timeoutSeconds: z
    .int()
    .min(1)
    .max(limits.jobSeconds)
    .default(86_400)
    .describe('Longest running time of a task, over all its attempts'),
  retries: z
    .int()
    .min(0)
    .max(limits.jobRetries)
    .default(0)
    .describe('How often a task is run again after an exit code other than 0'),
  priority: z.int().min(-100).max(100).default(0).describe('Among the jobs of the account; higher starts first'),
}
const jobOrder = z.strictObject(jobOrderFields).meta({ id: 'CreateJob' })

const counts = z.object({
  queued: z.int(),
  starting: z.int(),
  running: z.int(),
  succeeded: z.int(),
  failed: z.int(),
  cancelled: z.int(),
  timedOut: z.int(),
})

const jobState = z.enum(jobStates).describe(describeJobStates())

/** The output of one attempt. */
const jobOutput = z.object({
  files: z
    .array(z.object({ path: z.string(), bytes: z.int() }))
    .describe(`Files of /berth/output; the first ${limits.jobOutputFiles}`),
  fileCount: z.int(),
  bytes: z.int(),
  problem: z.string().nullable().describe('Why the output was not kept, as a reason; null: it was, or there is none'),
})
export type JobOutput = z.output<typeof jobOutput>

const attempt = z
  .object({
    number: z.int(),
    rentalId: z.int().describe('Its container: `/v2/rentals/{id}/logs` has its log'),
    rentalName: z.string(),
    machineId: z.string(),
    createdAt: timestamp,
    startedAt: timestamp.nullable(),
    endedAt: timestamp.nullable(),
    outcome: z.enum(attemptOutcomes).nullable(),
    reason: z.string().nullable(),
    exitCode: z.int().nullable(),
    costUsd: usdAmount,
    output: jobOutput.nullable().describe('null: not collected'),
    outputExpiresAt: timestamp.nullable().describe('null: there are no files'),
    result: z.unknown().describe('Content of /berth/output/result.json; null: there is none'),
  })
  .meta({ id: 'JobAttempt' })

const task = z
  .object({
    index: z.int(),
    state: jobState,
    reason: z.string().nullable(),
    message: z.string().nullable(),
    exitCode: z.int().nullable(),
    restarts: z.int().describe('Attempts that were lost with their host'),
    failures: z.int().describe('Attempts that ended with another exit code than 0'),
    startedAt: timestamp.nullable(),
    endedAt: timestamp.nullable(),
    attempts: z.array(attempt),
  })
  .meta({ id: 'JobTask' })

const summaryFields = {
  id: z.string(),
  name: z.string().nullable(),
  state: jobState,
  image: z.string(),
  gpus: complete(jobGpus),
  tasks: z.int(),
  counts,
  priority: z.int(),
  costUsd: usdAmount.describe('Of all attempts until now'),
  createdAt: timestamp,
  endedAt: timestamp.nullable(),
  waiting: z
    .object({
      reason: z.string().describe('`turn` and `parallel_limit`, or why no machine could be rented'),
      message: z.string(),
    })
    .nullable()
    .describe('Why its next task waits; null: none does'),
}

const summary = z.object(summaryFields).meta({ id: 'JobSummary' })
const job = z
  .object({
    ...summaryFields,
    command: z.array(z.string()).nullable(),
    args: z.array(z.string()).nullable(),
    parallel: z.int(),
    maxCostUsd: usdAmount.nullable(),
    maxPricePerHourUsd: usdAmount.nullable(),
    timeoutSeconds: z.int(),
    retries: z.int(),
    place: z.int().nullable().describe('Its place in the queue of all accounts, from 1; null: it does not wait'),
    cancelRequestedAt: timestamp.nullable(),
    deletedAfter: timestamp.nullable().describe('When the job and its results are deleted; null: it has not ended'),
    task: task.nullable().describe('Its only task; null: it has an array, see `listJobTasks`'),
  })
  .meta({ id: 'Job' })

const jobs = { family: 'v2', tag: 'Jobs' } as const

export const jobEndpoints = {
  createJob: endpoint({
    needsTerms: true,
    ...jobs,
    method: 'POST',
    path: '/v2/jobs',
    access: ['compute:write'],
    summary: 'Run a command once on the cheapest GPUs that fit',
    description:
      'Returns immediately. The job waits until a machine is free, runs there as a container, and ends with its command. What it writes to `/berth/output` is kept for 30 days, however it ends. A host that is lost costs nothing from then on, and the job starts again elsewhere.',
    errors: [400, 401, 403, 404, 500],
    body: jobOrder,
    response: job,
    idempotent: true,
  }),
  listJobs: endpoint({
    ...jobs,
    method: 'GET',
    path: '/v2/jobs',
    access: ['compute:read'],
    summary: 'List jobs, newest first',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({ state: z.enum(jobStates).optional() }),
    response: z.object({ jobs: z.array(summary), nextCursor: z.string().nullable() }),
  }),
  getJob: endpoint({
    ...jobs,
    method: 'GET',
    path: '/v2/jobs/{id}',
    access: ['compute:read'],
    summary: 'Get a job: its state, its place in the queue, its attempts and results',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: job,
  }),
  listJobTasks: endpoint({
    ...jobs,
    method: 'GET',
    path: '/v2/jobs/{id}/tasks',
    access: ['compute:read'],
    summary: 'List the tasks of a job with their attempts and results',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    query: pageQuery.extend({
      limit: z.coerce.number().int().min(1).max(limits.jobTaskRows).default(limits.jobTaskRows),
      index: z.coerce.number().int().min(0).max(limits.jobTasks).optional().describe('Only this task'),
    }),
    response: z.object({ tasks: z.array(task), nextCursor: z.string().nullable() }),
  }),
  cancelJob: endpoint({
    ...jobs,
    method: 'POST',
    path: '/v2/jobs/{id}/cancel',
    access: ['compute:write'],
    summary: 'Cancel a job; its running commands get SIGTERM and their output is kept',
    description: 'A job that has ended stays as it is.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: job,
  }),
  downloadJobOutput: endpoint({
    ...jobs,
    method: 'GET',
    path: '/v2/jobs/{id}/output',
    access: ['compute:read'],
    summary: 'Download the output of a task as a tar archive, or one file of it',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    query: z.strictObject({
      index: z.coerce.number().int().min(0).max(limits.jobTasks).default(0).describe('Index of the task'),
      attempt: z.coerce.number().int().min(1).max(1_000).optional().describe('Default: the last one with output'),
      path: z.string().min(1).max(1_000).optional().describe('One file, such as `model/weights.bin`'),
    }),
    response: z.string(),
    answers: 'file',
  }),
}
