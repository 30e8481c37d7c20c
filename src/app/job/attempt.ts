/**
 * The life of an attempt: it is ordered on the cheapest machine that fits, followed and ended, each in one transaction.
 */
import { addMs, type Instant } from '../../base/instant.ts'
import { floorDivide, nanoUsdOf, usd } from '../../base/money.ts'
import type { JobSpec } from '../../contract/job.ts'
import { isJobEnd } from '../../contract/job-state.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { attemptBudget, nextStep, type AttemptFacts, type Finish, type JobStep } from '../../domain/job.ts'
import { AVOIDED_FACTOR } from '../../domain/replica-rank.ts'
import { isLiving } from '../../domain/rental.ts'
import { undoOnFailure, type Db, type Tx } from '../../store/platform/database.ts'
import { listCheapest, type ListedMachine } from '../../store/machine/listed-machine.ts'
import { readOrderedMachines } from '../../store/machine/machine.ts'
import {
  endAttempt,
  findLivingAttempt,
  insertAttempt,
  listLostMachines,
  readBudgetUse,
  type AttemptRow,
} from '../../store/job/attempt.ts'
import {
  endQueuedTasks,
  findQueuedTask,
  findTask,
  JOBS_WAKE,
  lockJob,
  updateJob,
  updateTask,
  type Job,
  type JobTask,
} from '../../store/job/job.ts'
import { takeJobTurn } from '../../store/job/queue.ts'
import { listWarm, markWarm } from '../../store/job/warm-machine.ts'
import { meterNow } from '../../store/ledger/segment.ts'
import { lockRental, updateRental, type Rental } from '../../store/rental/rental.ts'
import type { App } from '../app.ts'
import { checkOrder, mayFitElsewhere } from '../order/check-order.ts'
import { readNode, siteOf } from '../order/marketplace.ts'
import { placeOrder } from '../order/place-order.ts'
import type { OrderDraft } from '../order/read-order.ts'
import { terminateRental } from '../rental/rental.ts'
import { draftAttempt } from './draft.ts'
import { imageText, recordJobEvent, settleJob } from './job.ts'

/** The maximum of machines tried. An attempt at a machine fails only if a concurrent order takes its free GPUs. */
const MAX_MACHINES = 16
const BYTES_PER_MIB = 1_048_576

/** Starts the next task of a job. undefined: no task is waiting. */
export async function startTask(app: App, tx: Tx, jobId: string): Promise<Result<Rental> | undefined> {
  const job = await lockJob(tx, jobId)
  if (job === undefined || job.starting + job.running >= job.parallel) return undefined
  const task = await findQueuedTask(tx, jobId)
  if (task === undefined) return undefined
  const budget = attemptBudget(job.max_cost_nano, { ...(await readBudgetUse(tx.db, jobId)), waiting: job.queued })
  if (budget === 0n) return endWaiting(tx, job, 'max_cost')
  const draft = await draftAttempt(app, tx, job, task.task, budget)
  if (!draft.ok) return draft
  const machines = await listFitting(app, tx.db, job.spec, {
    place: draft.value.volumes.place,
    lostOn: await listLostMachines(tx.db, jobId, task.task),
    warm: await listWarm(tx.db, { accountId: job.account_id, image: imageText(job.spec) }),
  })
  let outcome: Result<Rental> | undefined
  for (const machine of machines) {
    outcome = await undoOnFailure(tx, () => placeAttempt(app, tx, job, draft.value, machine))
    if (outcome.ok) return begin(tx, job, task, outcome.value, machine.id)
    if (!mayFitElsewhere(outcome)) return outcome
  }
  return outcome ?? whyNoMachine(app, tx.db, job.spec)
}

async function endWaiting(tx: Tx, job: Job, reason: string): Promise<undefined> {
  await endQueuedTasks(tx, job.id, { state: 'Failed', reason })
  await settleJob(tx, job)
  return undefined
}

async function begin(tx: Tx, job: Job, task: JobTask, rental: Rental, machineId: string): Promise<Result<Rental>> {
  await insertAttempt(tx, { job_id: job.id, task: task.task, rental_id: rental.id, machine_id: machineId })
  await markWarm(tx, { accountId: job.account_id, image: imageText(job.spec) }, machineId)
  await updateTask(tx, task, { state: 'Starting' }, false)
  await updateJob(tx, job.id, { blocked: null })
  await takeJobTurn(tx, job.account_id)
  await settleJob(tx, job)
  return ok(rental)
}

async function placeAttempt(
  app: App,
  tx: Tx,
  { account_id, person_id, api_key_id }: Job,
  draft: OrderDraft,
  { id, cluster_name }: ListedMachine,
): Promise<Result<Rental>> {
  const machines = await readOrderedMachines(tx.db, [id])
  const machine = readNode(app, { nodeName: id, clusterName: cluster_name }, machines.get(id))
  if (!machine.ok) return machine
  const now = tx.clock.now()
  const order = checkOrder(app, draft, siteOf(draft, machine.value, now), now)
  // The order is placed for the member and the key that created the job, so the limits of the key apply.
  const payer = { accountId: account_id, personId: person_id, keyId: api_key_id }
  return order.ok ? placeOrder(app, tx, payer, order.value) : order
}

interface FittingOptions {
  /** The place of the job's volumes. undefined: the job has none. */
  readonly place?: OrderDraft['volumes']['place']
  readonly lostOn?: readonly string[]
  /** Machines that already have the job's image. */
  readonly warm?: readonly string[]
  readonly isSimulated?: boolean
}

/**
 * Lists machines that can run the task, cheapest first; at equal prices, machines with the image come first. Machines
 * on which the task was lost before come last.
 */
async function listFitting(
  app: Pick<App, 'drivers'>,
  db: Db,
  { gpus, maxPricePerHourUsd: maxPerHour }: JobSpec,
  { place, lostOn = [], warm = [], isSimulated = false }: FittingOptions,
): Promise<ListedMachine[]> {
  const { model, minMemoryGb, count, region, machineId } = gpus
  const drivers = [...app.drivers.values()].filter(({ traits }) => traits.keepsOutput === true).map(({ id }) => id)
  // Machines outside of the storage regions can use volumes of any region.
  const at = place?.host === undefined && place?.cluster === undefined ? place : { ...place, region: undefined }
  return listCheapest(db, {
    gpuCount: count,
    limit: MAX_MACHINES,
    avoided: { ids: lostOn, factor: AVOIDED_FACTOR },
    preferred: warm,
    ...at,
    // A job that names a machine gets that machine. Otherwise only drivers that keep output are considered: elsewhere
    // the output would be lost.
    ...(machineId === undefined ? { isSimulated, ...(isSimulated ? {} : { drivers }) } : {}),
    ...(model === undefined ? {} : { gpuLike: model }),
    ...(minMemoryGb === undefined ? {} : { minRamMib: Math.floor((minMemoryGb * 1e9) / BYTES_PER_MIB) }),
    ...(region === undefined ? {} : { region }),
    ...(machineId === undefined ? {} : { host: machineId }),
    ...(maxPerHour === undefined ? {} : { maxPrice: nanoUsdOf(floorDivide(usd(maxPerHour), BigInt(count))) }),
  })
}

async function whyNoMachine(app: App, db: Db, spec: JobSpec): Promise<Failure> {
  const gpus = describeJobGpus(spec)
  const simulated = spec.gpus.machineId === undefined ? await listFitting(app, db, spec, { isSimulated: true }) : []
  return simulated.length > 0
    ? failField(['gpus'], 'job_only_simulated', { gpus })
    : fail('no_capacity', { gpus, where: 'on the marketplace' })
}

function describeJobGpus({ gpus, maxPricePerHourUsd: price }: Pick<JobSpec, 'gpus' | 'maxPricePerHourUsd'>): string {
  const { count, model, minMemoryGb, region, machineId } = gpus
  const memory = minMemoryGb === undefined ? '' : ` with ${minMemoryGb} GB`
  const where = [region === undefined ? '' : ` in ${region}`, machineId === undefined ? '' : ` on ${machineId}`].join(
    '',
  )
  return `${count} × ${model ?? 'GPU'}${memory}${where}${price === undefined ? '' : ` for at most $${price} per hour`}`
}

/** Decides the next step of a living attempt. */
export function stepOf(job: Job, task: JobTask, attempt: AttemptRow, now: Instant): JobStep {
  return nextStep(factsOf(job, task, attempt), now)
}

function factsOf(job: Job, task: JobTask, attempt: AttemptRow): AttemptFacts {
  return {
    task: {
      state: task.state,
      restarts: task.restarts,
      failures: task.failures,
      ranMs: Number(task.ran_ms),
    },
    job: {
      timeoutMs: Number(job.timeout_ms),
      retries: job.retries,
      isCancelled: job.cancel_requested_at !== null,
    },
    rental: {
      status: attempt.rental_status,
      since: attempt.rental_since,
      reason: attempt.rental_reason,
      exitCode: attempt.rental_exit_code,
      startedAt: attempt.rental_started_at,
      endedAt: attempt.terminate_requested_at,
      autoTerminateAt: attempt.auto_terminate_at,
      isReleased: attempt.released_at !== null,
    },
    isCollected: attempt.collected_at !== null,
  }
}

/** Takes the next step of a task's living attempt, decided under the lock of the job. */
export async function advanceTask(tx: Tx, jobId: string, taskIndex: number): Promise<void> {
  const job = await lockJob(tx, jobId)
  const task = await findTask(tx.db, jobId, taskIndex)
  const living = await findLivingAttempt(tx.db, jobId, taskIndex)
  if (job === undefined || task === undefined || living === undefined) return
  const rental = await lockRental(tx, living.rental_id)
  // Read again under the lock of the rental.
  const attempt = await findLivingAttempt(tx.db, jobId, taskIndex)
  if (rental === undefined || attempt === undefined) return
  const step = stepOf(job, task, attempt, tx.clock.now())
  switch (step.kind) {
    case 'wait':
      return
    case 'note':
      if (step.endAt !== null) await limitTime(tx, rental, step.endAt)
      await updateTask(tx, task, { state: step.state, ...startOf(task, attempt) }, false)
      await settleJob(tx, job)
      return
    case 'terminate':
      await terminateRental(tx, rental, step.reason, tx.clock.now())
      tx.wake.add(JOBS_WAKE)
      return
    case 'finish':
      return finish(tx, job, task, attempt, rental, step)
  }
}

function startOf(task: JobTask, attempt: AttemptRow): { readonly startedAt?: Instant } {
  const startedAt = attempt.rental_started_at
  return task.started_at === null && startedAt !== null ? { startedAt } : {}
}

/** Sets the end of the rental, so that its bill stops at the same millisecond. */
async function limitTime(tx: Tx, rental: Rental, endAt: Instant): Promise<void> {
  if (!isLiving(rental.status)) return
  await updateRental(tx, rental.id, { auto_terminate_at: endAt })
  await meterNow(tx, rental.id)
}

async function finish(
  tx: Tx,
  job: Job,
  task: JobTask,
  attempt: AttemptRow,
  rental: Rental,
  end: Finish,
): Promise<void> {
  const { outcome, next, reason } = end
  const now = tx.clock.now()
  await endAttempt(tx, attempt, { outcome, reason, exitCode: attempt.rental_exit_code })
  // A failed rental would stay in the customer's list.
  if (rental.status === 'Failed') await terminateRental(tx, rental, rental.status_reason ?? 'job_ended', now)
  const isRetry = outcome === 'failed' && next === 'Queued'
  await updateTask(
    tx,
    task,
    {
      state: next,
      restarts: task.restarts + (outcome === 'lost' ? 1 : 0),
      failures: task.failures + (outcome === 'failed' ? 1 : 0),
      ranMs: Number(task.ran_ms) + end.ranMs,
      exitCode: attempt.rental_exit_code,
      reason: isJobEnd(next) ? reason : null,
      ...startOf(task, attempt),
    },
    isJobEnd(next),
  )
  if (next === 'Queued') {
    if (end.delayMs > 0) await updateJob(tx, job.id, { dueAt: addMs(now, end.delayMs) })
    const type = isRetry ? 'job.retried' : 'job.restarted'
    recordJobEvent(tx, job, type, { task: task.task, reason, rentalId: attempt.rental_id })
  }
  tx.wake.add(JOBS_WAKE)
  await settleJob(tx, job)
}

/** Ends the waiting tasks of a job whose order can never succeed. */
export async function failWaiting(tx: Tx, jobId: string, failure: Failure): Promise<void> {
  const job = await lockJob(tx, jobId)
  if (job === undefined) return
  await updateJob(tx, jobId, { blocked: { reason: failure.reason, detail: failure.message } })
  await endWaiting(tx, job, failure.reason)
}

export async function noteBlocked(tx: Tx, jobId: string, { reason, message }: Failure): Promise<void> {
  const job = await lockJob(tx, jobId)
  if (job === undefined || (job.blocked_reason === reason && job.blocked_detail === message)) return
  await updateJob(tx, jobId, { blocked: { reason, detail: message } })
}
