/** Jobs: ordering and cancelling them. The loop `jobs` does the rest (reconcile/jobs.ts). */
import { randomId } from '../../base/id.ts'
import { SECOND_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { EventType } from '../../contract/event-type.ts'
import { jobSpec, type JobSpec } from '../../contract/job.ts'
import { isJobEnd, jobStateTable } from '../../contract/job-state.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { obstacleOf } from '../../domain/job.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import {
  countLivingJobs,
  countTasks,
  endQueuedTasks,
  findJob,
  insertJob,
  JOBS_WAKE,
  lockJob,
  updateJob,
  type Job,
} from '../../store/job/job.ts'
import type { JobPlan } from '../../store/job/schedule.ts'
import type { Actor, App } from '../app.ts'
import { draftAttempt, INPUT_PATH, OUTPUT_PATH } from './draft.ts'

export interface JobOrder extends Omit<JobSpec, 'inputText'> {
  readonly input?: unknown
  readonly name?: string | undefined
  readonly array?: { readonly count: number; readonly parallel?: number | undefined } | undefined
  readonly maxCostUsd?: NanoUsd | undefined
  readonly timeoutSeconds: number
  readonly retries: number
  readonly priority: number
}

/** Secrets, volumes and logins must exist when the job is ordered. For machines, money and quotas, its tasks wait. */
export async function createJob(app: App, tx: Tx, actor: Actor, order: JobOrder): Promise<Result<Job>> {
  return admitJob(app, tx, actor, planJob(order))
}

export function planJob(order: JobOrder): JobPlan {
  const { array, maxCostUsd, timeoutSeconds, retries, priority, name } = order
  const tasks = array?.count ?? 1
  const inputText = order.input === undefined ? {} : { inputText: JSON.stringify(order.input) }
  const spec = jobSpec.parse({ ...order, ...inputText })
  return {
    name: name ?? null,
    spec,
    demand: demandOf(spec),
    priority,
    tasks,
    parallel: Math.min(array?.parallel ?? tasks, tasks),
    maxCost: maxCostUsd ?? null,
    timeoutMs: timeoutSeconds * SECOND_MS,
    retries,
  }
}

/** The member and the key for whom a job is ordered. */
export type JobOwner = Pick<Actor, 'accountId' | 'personId' | 'keyId'>

export async function admitJob(app: App, tx: Tx, owner: JobOwner, plan: JobPlan): Promise<Result<Job>> {
  const { accountId, personId, keyId } = owner
  if ((await countLivingJobs(tx, accountId)) >= limits.jobsPerAccount) {
    return fail('quota_exceeded', { quota: `${limits.jobsPerAccount} jobs that have not ended` })
  }
  const refused = await refusePlan(app, tx, owner, plan)
  if (refused !== undefined) return refused
  const job = await insertJob(tx, { id: randomId('job'), accountId, personId, keyId, ...plan })
  recordJobEvent(tx, job, 'job.created', { tasks: plan.tasks, image: imageText(plan.spec) })
  return ok(job)
}

export async function refusePlan(
  app: App,
  tx: Tx,
  { accountId }: Pick<JobOwner, 'accountId'>,
  { spec, tasks }: JobPlan,
): Promise<Failure | undefined> {
  const refused = refuseSpec(spec)
  if (refused !== undefined) return refused
  const draft = await draftAttempt(app, tx, { account_id: accountId, id: 'job', name: null, spec, tasks }, 0)
  // A volume that another task or rental uses is no reason to refuse: the task waits for it.
  return draft.ok || obstacleOf(draft.reason) !== 'final' ? undefined : draft
}

function refuseSpec({ files = [] }: JobSpec): Failure | undefined {
  const index = files.findIndex(({ path }) => path === INPUT_PATH || path === OUTPUT_PATH)
  return index < 0 ? undefined : failField(['files', index, 'path'], 'job_path_reserved', { path: INPUT_PATH })
}

/** Jobs with the same demand fit the same machines. */
function demandOf({ gpus, maxPricePerHourUsd, volumes = [], diskGb }: JobSpec): string {
  const volumeIds = volumes.map(({ volumeId }) => volumeId)
  const { model, minMemoryGb, count, region, machineId } = gpus
  return JSON.stringify([count, model, minMemoryGb, region, machineId, maxPricePerHourUsd, volumeIds, diskGb])
}

export function imageText({ image }: Pick<JobSpec, 'image'>): string {
  return image.tag === undefined ? image.name : `${image.name}:${image.tag}`
}

export async function findOwnJob(db: Db, actor: Pick<Actor, 'accountId'>, id: string): Promise<Result<Job>> {
  const job = await findJob(db, id)
  return job === undefined || job.account_id !== actor.accountId ? fail('job_not_found') : ok(job)
}

/**
 * Ends waiting tasks at once; the loop ends the running ones and keeps their output. A job that has ended stays as it
 * is.
 */
export async function cancelJob(tx: Tx, actor: Actor, id: string): Promise<Result<Job>> {
  const lookup = await findOwnJob(tx.db, actor, id)
  const job = lookup.ok ? await lockJob(tx, id) : undefined
  if (job === undefined) return lookup
  if (isJobEnd(job.state) || job.cancel_requested_at !== null) return ok(job)
  await updateJob(tx, id, { cancelRequestedAt: tx.clock.now(), blocked: null })
  await endQueuedTasks(tx, id, { state: 'Cancelled', reason: 'job_cancelled' })
  tx.wake.add(JOBS_WAKE)
  return ok(await settleJob(tx, job))
}

/** Counts the tasks of a locked job, and records the event of a new state. */
export async function settleJob(tx: Tx, before: Job): Promise<Job> {
  const job = await countTasks(tx, before)
  const { event } = jobStateTable[job.state]
  // The restart of a task does not count as a restart of its job.
  const isNews =
    job.state !== before.state && (isJobEnd(job.state) || event !== 'job.starting' || before.state === 'Queued')
  if (isNews && event !== null) recordJobEvent(tx, job, event, job.tasks === 1 ? {} : countsOf(job))
  return job
}

function countsOf({ succeeded, failed, cancelled, timed_out }: Job): Readonly<Record<string, number>> {
  return { succeeded, failed, cancelled, timedOut: timed_out }
}

export function recordJobEvent(
  tx: Tx,
  { id, account_id, name }: Pick<Job, 'id' | 'account_id' | 'name'>,
  type: Extract<EventType, `job.${string}`>,
  data: Readonly<Record<string, unknown>> = {},
): void {
  recordEvent(tx, {
    accountId: account_id,
    type,
    subject: { kind: 'job', id },
    data: { jobId: id, name: name ?? id, ...data },
  })
}
