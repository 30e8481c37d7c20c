/**
 * Runs jobs: follows the rentals of their attempts, and starts waiting tasks, account by account in turns. Each step is
 * one transaction under the lock of its job and is decided there from the current rows, so an interrupted step is
 * decided again.
 */
import { SECOND_MS } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { advanceTask, failWaiting, noteBlocked, startTask, stepOf } from '../app/job/attempt.ts'
import { runSchedule } from '../app/job/schedule.ts'
import { obstacleOf } from '../domain/job.ts'
import { transact } from '../store/platform/database.ts'
import { endTurn, takeTurn } from '../store/platform/lease.ts'
import { listLivingAttempts } from '../store/job/attempt.ts'
import { deleteOldJobs, findJob, findTask, type Job, type JobTask } from '../store/job/job.ts'
import { hasJobWork, listDueSchedules } from '../store/job/schedule.ts'
import { listHeads, type QueueHead } from '../store/job/queue.ts'
import { forgetCold } from '../store/job/warm-machine.ts'
import { eachOf, type Reconciler } from './loop.ts'

const LEASE_MS = 30 * SECOND_MS
const WIDTH = 8
/** The maximum of starts per pass; the next pass follows at once. */
const MAX_STARTS = 50
const MAX_DELETIONS = 100
/** The maximum of schedules per pass. */
const MAX_SCHEDULES = 100
const LOOP = 'jobs'

export function runJobs(app: App): Reconciler {
  return {
    name: LOOP,
    due: hasJobWork,
    run: async () => {
      const { db } = app.database
      const now = app.clock.now()
      const token = await takeTurn(db, LOOP, { now, leaseMs: LEASE_MS })
      if (token === undefined) return false
      try {
        await runSchedules(app)
        await followAttempts(app)
        const starts = await startWaiting(app)
        await deleteOldJobs(db, now, MAX_DELETIONS)
        await forgetCold(db, now)
        return starts === MAX_STARTS
      } finally {
        await endTurn(db, LOOP, token, now)
      }
    },
  }
}

async function runSchedules(app: App): Promise<void> {
  const due = await listDueSchedules(app.database.db, app.clock.now(), MAX_SCHEDULES)
  for (const id of due) await transact(app.database, (tx) => runSchedule(app, tx, id))
}

async function followAttempts(app: App): Promise<void> {
  const { db } = app.database
  const attempts = await listLivingAttempts(db)
  const jobs = new Map<string, Job>()
  await eachOf(attempts, WIDTH, async (attempt) => {
    const job = jobs.get(attempt.job_id) ?? (await findJob(db, attempt.job_id))
    const task: JobTask | undefined = await findTask(db, attempt.job_id, attempt.task)
    if (job === undefined || task === undefined) return
    jobs.set(job.id, job)
    if (stepOf(job, task, attempt, app.clock.now()).kind === 'wait') return
    await transact(app.database, (tx) => advanceTask(tx, attempt.job_id, attempt.task))
  })
}

/** In each round, every account starts one task, until no machine is free for the waiting tasks. */
async function startWaiting(app: App): Promise<number> {
  const full = new Set<string>()
  const stuck = new Set<string>()
  let starts = 0
  for (;;) {
    const heads = await listHeads(app.database.db, app.clock.now())
    const served = new Set<string>()
    const before = starts
    for (const head of heads) {
      const isTried = full.has(head.demand) || stuck.has(head.account_id) || served.has(head.account_id)
      if (isTried) continue
      const result = await startHead(app, head)
      if (result === 'machine') full.add(head.demand)
      if (result === 'account') stuck.add(head.account_id)
      if (result !== 'started') continue
      starts += 1
      served.add(head.account_id)
      if (starts === MAX_STARTS) return starts
    }
    if (starts === before) return starts
  }
}

async function startHead(app: App, { id }: QueueHead): Promise<'started' | 'gone' | 'machine' | 'account'> {
  const outcome = await transact(app.database, (tx) => startTask(app, tx, id))
  if (outcome === undefined) return 'gone'
  if (outcome.ok) return 'started'
  const obstacle = obstacleOf(outcome.reason)
  if (obstacle === 'final') {
    await transact(app.database, (tx) => failWaiting(tx, id, outcome))
    return 'gone'
  }
  await transact(app.database, (tx) => noteBlocked(tx, id, outcome))
  return obstacle
}
