/** Schedules of jobs over HTTP. */
import { createOnce } from '../../app/idempotency.ts'
import { imageText } from '../../app/job/job.ts'
import { changeSchedule, createSchedule, removeSchedule } from '../../app/job/schedule.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import { listSchedules, type JobSchedule } from '../../store/job/schedule.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'

export const jobScheduleHandlers = {
  createJobSchedule: async (app, { actor, body, operation, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const schedule = await createSchedule(app, tx, actor, body)
      return schedule.ok ? ok(scheduleOnWire(schedule.value)) : schedule
    }),

  listJobSchedules: async (app, { actor }) => {
    const schedules = await listSchedules(app.database.db, actor.accountId)
    return ok({ schedules: schedules.map(scheduleOnWire) })
  },

  changeJobSchedule: async (app, { actor, params, body }) => {
    const schedule = await transact(app.database, (tx) => changeSchedule(tx, actor, params.id, body))
    return schedule.ok ? ok(scheduleOnWire(schedule.value)) : schedule
  },

  deleteJobSchedule: async (app, { actor, params }) => {
    const removed = await transact(app.database, (tx) => removeSchedule(tx, actor, params.id))
    return removed.ok ? ok({ message: 'Schedule deleted' }) : removed
  },
} satisfies Partial<Handlers>

function scheduleOnWire(schedule: JobSchedule): ResponseOf<Api['createJobSchedule']> {
  const { plan } = schedule
  return {
    id: schedule.id,
    name: schedule.name,
    cron: schedule.cron,
    paused: schedule.next_at === null,
    image: imageText(plan.spec),
    command: plan.spec.command ?? null,
    tasks: plan.tasks,
    nextAt: schedule.next_at,
    lastAt: schedule.last_at,
    lastJobId: schedule.last_job_id,
    lastReason: schedule.last_reason,
    createdAt: schedule.created_at,
  }
}
