/** Schedules of jobs: at each of its times, a schedule orders one job. */
import { nextTime, parseCron } from '../../base/cron.ts'
import { randomId } from '../../base/id.ts'
import type { Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { effectiveScopes, holdsScope } from '../../domain/api-key.ts'
import { findKnownKey } from '../../store/account/api-key.ts'
import { findJob } from '../../store/job/job.ts'
import {
  countSchedules,
  deleteSchedule,
  insertSchedule,
  lockSchedule,
  updateSchedule,
  type JobSchedule,
} from '../../store/job/schedule.ts'
import { undoOnFailure, type Db, type Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { admitJob, planJob, refusePlan, type JobOrder } from './job.ts'

export async function createSchedule(
  app: App,
  tx: Tx,
  actor: Actor,
  { cron, ...order }: JobOrder & { readonly cron: string },
): Promise<Result<JobSchedule>> {
  if ((await countSchedules(tx, actor.accountId)) >= limits.jobSchedules)
    return fail('quota_exceeded', { quota: `${limits.jobSchedules} schedules of jobs` })
  const plan = planJob(order)
  const refused = await refusePlan(app, tx, actor, plan)
  if (refused !== undefined) return refused
  const schedule = await insertSchedule(tx, {
    id: randomId('sched'),
    account_id: actor.accountId,
    person_id: actor.personId,
    api_key_id: actor.keyId,
    name: plan.name,
    cron,
    plan,
    next_at: nextOf(cron, tx.clock.now()),
  })
  return ok(schedule)
}

function nextOf(text: string, after: Instant): Instant | null {
  const cron = parseCron(text)
  return cron === undefined ? null : (nextTime(cron, after) ?? null)
}

async function lockOwn(tx: Tx, actor: Actor, id: string): Promise<Result<JobSchedule>> {
  const schedule = await lockSchedule(tx, id)
  return schedule === undefined || schedule.account_id !== actor.accountId
    ? fail('job_schedule_not_found')
    : ok(schedule)
}

export async function changeSchedule(
  tx: Tx,
  actor: Actor,
  id: string,
  change: { readonly cron?: string | undefined; readonly paused?: boolean | undefined },
): Promise<Result<JobSchedule>> {
  const locked = await lockOwn(tx, actor, id)
  if (!locked.ok) return locked
  const { cron = locked.value.cron, paused = locked.value.next_at === null } = change
  const nextAt = paused ? null : nextOf(cron, tx.clock.now())
  const owner = change.paused === false ? { owner: actor } : {}
  return ok(await updateSchedule(tx, id, { cron, nextAt, ...owner }))
}

export async function removeSchedule(tx: Tx, actor: Actor, id: string): Promise<Result<void>> {
  const locked = await lockOwn(tx, actor, id)
  if (!locked.ok) return locked
  await deleteSchedule(tx, id)
  return ok(undefined)
}

/** Orders the job of a schedule that is due. However many times were missed, one job is ordered. */
export async function runSchedule(app: App, tx: Tx, id: string): Promise<void> {
  const schedule = await lockSchedule(tx, id)
  const now = tx.clock.now()
  if (schedule === undefined || schedule.next_at === null || schedule.next_at > now) return
  const nextAt = nextOf(schedule.cron, now)
  if (!(await mayOrder(tx.db, schedule, now))) {
    await updateSchedule(tx, id, { nextAt: null, last: { at: now, reason: 'key_not_valid' } })
    return
  }
  const previous = schedule.last_job_id === null ? undefined : await findJob(tx.db, schedule.last_job_id)
  if (previous !== undefined && previous.ended_at === null) {
    await updateSchedule(tx, id, { nextAt, last: { at: now, reason: 'job_still_runs' } })
    return
  }
  const owner = { accountId: schedule.account_id, personId: schedule.person_id, keyId: schedule.api_key_id }
  const job = await undoOnFailure(tx, () => admitJob(app, tx, owner, schedule.plan))
  const last = job.ok ? { at: now, jobId: job.value.id, reason: null } : { at: now, reason: job.reason }
  await updateSchedule(tx, id, { nextAt, last })
}

/** Whether the key that created the schedule could still order a job. */
async function mayOrder(
  db: Db,
  { api_key_id: keyId, person_id: personId }: JobSchedule,
  now: Instant,
): Promise<boolean> {
  const key = await findKnownKey(db, keyId)
  if (key === undefined || key.person_id !== personId) return false
  const hasEnded =
    key.revoked_at !== null || key.suspended_at !== null || (key.expires_at !== null && key.expires_at <= now)
  return !hasEnded && holdsScope(effectiveScopes(key.role, key.scopes), 'compute:write')
}
