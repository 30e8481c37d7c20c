/** The order of an attempt before a machine is chosen. A job is checked with it before it is accepted. */
import type { NanoUsd } from '../../base/money.ts'
import { ok, type Result } from '../../contract/result.ts'
import type { OrderFields } from '../../domain/order.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Job } from '../../store/job/job.ts'
import type { App } from '../app.ts'
import { readOrder, type OrderDraft } from '../order/read-order.ts'

/** The paths of a job's own files. */
export const INPUT_PATH = '/berth/input.json'
export const OUTPUT_PATH = '/berth/output'

/** Drafts the order of one attempt, for any machine. */
export async function draftAttempt(
  app: App,
  tx: Tx,
  job: Pick<Job, 'id' | 'account_id' | 'name' | 'spec' | 'tasks'>,
  task: number,
  budget: NanoUsd | null = null,
): Promise<Result<OrderDraft>> {
  const { spec } = job
  const jobVariables = { BERTH_JOB_ID: job.id, BERTH_JOB_INDEX: String(task), BERTH_JOB_COUNT: String(job.tasks) }
  const input = spec.inputText === undefined ? [] : [{ path: INPUT_PATH, content: spec.inputText }]
  const suffix = job.tasks === 1 ? '' : `/${task}`
  const fields: OrderFields = {
    gpuCount: spec.gpus.count,
    image: spec.image,
    label: `${job.name ?? job.id}${suffix}`,
    command: spec.command,
    args: spec.args,
    env: { ...spec.env, ...jobVariables },
    files: [...(spec.files ?? []), ...input],
    volumes: spec.volumes,
    registryCredentialId: spec.registryCredentialId,
    diskGb: spec.diskGb,
    shmGb: spec.shmGb,
    spendingLimitUsd: budget ?? undefined,
    metadata: { job: job.id, task },
  }
  const expanded = { order: fields, templateId: null, minVramGb: 0 }
  const draft = await readOrder(app, tx, { accountId: job.account_id }, 'container', expanded)
  if (!draft.ok) return draft
  const { options } = draft.value
  const workload = { ...options.workload, runsOnce: true }
  return ok({ ...draft.value, options: { ...options, workload }, isUnattended: true })
}
