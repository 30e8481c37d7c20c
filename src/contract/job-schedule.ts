/** Schedules of jobs: a job that is ordered again at each time of a cron expression. */
import { z } from 'zod'
import { parseCron } from '../base/cron.ts'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { jobOrderFields } from './job.ts'
import { message, textIdParams, timestamp } from './shared.ts'

const cron = z
  .string()
  .max(limits.cronChars)
  .refine((text) => parseCron(text) !== undefined, {
    message:
      'Must be five fields of cron, such as `0 3 * * *` for 03:00 UTC each day, or @hourly, @daily, @weekly, @monthly',
  })
  .meta({
    description: 'Minute, hour, day of the month, month and day of the week in UTC, or `@daily`',
    example: '0 3 * * *',
  })

const schedule = z
  .object({
    id: z.string(),
    name: z.string().nullable(),
    cron: z.string(),
    paused: z.boolean(),
    image: z.string(),
    command: z.array(z.string()).nullable(),
    tasks: z.int(),
    nextAt: timestamp.nullable().describe('null: it is paused'),
    lastAt: timestamp.nullable(),
    lastJobId: z.string().nullable(),
    lastReason: z
      .string()
      .nullable()
      .describe(
        'Why the last time has no job: `job_still_runs`, `key_not_valid`, which pauses the schedule, or why the order was refused; null: it has one',
      ),
    createdAt: timestamp,
  })
  .meta({ id: 'JobSchedule' })

const schedules = { family: 'v2', tag: 'Jobs' } as const

export const jobScheduleEndpoints = {
  createJobSchedule: endpoint({
    needsTerms: true,
    ...schedules,
    method: 'POST',
    path: '/v2/job-schedules',
    access: ['compute:write'],
    summary: 'Order a job again and again',
    description:
      'Takes what `POST /v2/jobs` takes, and `cron`. A time is left out while the job before has not ended. Times that pass while no server runs are made up for once.',
    errors: [400, 401, 403, 404, 500],
    body: z.strictObject({ ...jobOrderFields, cron }).meta({ id: 'CreateJobSchedule' }),
    response: schedule,
    idempotent: true,
  }),
  listJobSchedules: endpoint({
    ...schedules,
    method: 'GET',
    path: '/v2/job-schedules',
    access: ['compute:read'],
    summary: 'List schedules of jobs',
    errors: [400, 401, 403, 500],
    response: z.object({ schedules: z.array(schedule) }),
  }),
  changeJobSchedule: endpoint({
    ...schedules,
    method: 'PATCH',
    path: '/v2/job-schedules/{id}',
    access: ['compute:write'],
    summary: 'Change the times of a schedule, pause it or resume it',
    description: 'Whoever resumes it becomes its owner: its next jobs are ordered with their key.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z.strictObject({ cron: cron.optional(), paused: z.boolean().optional() }).meta({ id: 'ChangeJobSchedule' }),
    response: schedule,
  }),
  deleteJobSchedule: endpoint({
    ...schedules,
    method: 'DELETE',
    path: '/v2/job-schedules/{id}',
    access: ['compute:write'],
    summary: 'Delete a schedule; its jobs go on',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
