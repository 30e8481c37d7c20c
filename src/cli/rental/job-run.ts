/** `berth run`: orders a job, shows its log as it comes, and ends as its command does. */
import { randomUUID } from 'node:crypto'
import type { CallInput } from '../../client/client.ts'
import { pause } from '../../client/pause.ts'
import { jobStateTable } from '../../contract/job-state.ts'
import { endedTasks, parseImage, type Job, type JobAttempt } from '../../view/job.ts'
import { money } from '../../view/money.ts'
import { parseNumber, parseWhole } from '../kit/flag.ts'
import { parseJson } from '../kit/json-file.ts'
import { CliError, exitCodes, type ExitCode, type Shell } from '../kit/shell.ts'
import { readTextFile } from '../kit/text-file.ts'
import type { Call, Options } from '../kit/row-type.ts'
import { downloadOutput } from './job-output.ts'
import { openLogs, printLines } from './machine-session.ts'
import { withVolumeIds, workloadFields, workloadOptions, type WorkloadFlags } from './rent-option.ts'
import type { Session } from './session.ts'

export interface RunOptions extends WorkloadFlags {
  readonly gpu?: string
  readonly count?: number
  readonly region?: string
  readonly machine?: string
  readonly image: string
  readonly name?: string
  readonly input?: string
  readonly maxPrice?: number
  readonly maxCost?: number
  readonly timeout?: string
  readonly retries?: number
  readonly array?: number
  readonly parallel?: number
  readonly priority?: number
  readonly output?: string
  readonly detach?: true
}

const POLL_MS = 1_000
const MAX_TASKS = 1_000
const TIMED_OUT_CODE = 124
const CANCELLED_CODE = 130
const LOG_LINES = 100_000
const LAST_LOG_TRIES = 10

const ofWorkload = [
  '--env <name=value...>',
  '--env-file <file>',
  '--secret-env <name...>',
  '--file <local:path...>',
  '--mount <volume:path...>',
  '--registry <id>',
  '--disk <gb>',
  '--shm <gb>',
]

/** Schedules have the same ones. */
export const jobOptions: Options = {
  '--image <image>': { help: 'image to run, such as debian:12', required: true },
  '--gpu <gpu>': 'memory of each GPU, such as 24gb, or a part of its name, such as h100 (default: any)',
  '--count <n>': { help: 'number of GPUs (default: 1)', parse: parseWhole(1, 64) },
  '--region <region>': 'only in this region',
  '--machine <name>': 'only on this machine; the only way to a simulated one',
  '--name <text>': 'your own name for the job',
  '--input <json>': 'JSON, or @FILE, that the command finds in /berth/input.json',
  '--max-price <usd>': { help: 'highest price per hour', parse: parseNumber(0, 1_000) },
  '--max-cost <usd>': { help: 'most that the job may cost', parse: parseNumber(0, 999_999_999) },
  '--timeout <span>': 'longest running time, such as 90s, 30m or 12h (default: 24h)',
  '--retries <n>': { help: 'how often to run it again after an exit code other than 0', parse: parseWhole(0, 100) },
  '--array <n>': { help: 'run it once for each index, in BERTH_JOB_INDEX', parse: parseWhole(1, MAX_TASKS) },
  '--parallel <n>': { help: 'with --array: most tasks at a time', parse: parseWhole(1, MAX_TASKS) },
  '--priority <n>': { help: 'among your jobs; higher starts first', parse: parseNumber(-100, 100) },
  ...Object.fromEntries(
    ofWorkload.flatMap((flag) => (workloadOptions[flag] === undefined ? [] : [[flag, workloadOptions[flag]]])),
  ),
}

export const runOptions: Options = {
  ...jobOptions,
  '-o, --output <folder>': 'download the output into this folder at the end',
  '-d, --detach': 'do not wait for it',
}

/** A lost connection never orders twice. */
export async function startJob(
  { client, shell, options: typed }: Call<RunOptions>,
  command: readonly string[],
): Promise<Job> {
  const body = await jobBody({ client, shell, options: typed }, command)
  return client.call('createJob', { body, idempotencyKey: randomUUID() })
}

/** The order of a job, for now or for a schedule. */
export async function jobBody(
  { client, shell, options: typed }: Pick<Call<RunOptions>, 'client' | 'shell' | 'options'>,
  command: readonly string[],
): Promise<NonNullable<CallInput<'createJob'>['body']>> {
  const options = await withVolumeIds(client, typed)
  const { maxPrice, maxCost, timeout, retries, array, parallel, priority, name, input } = options
  return {
    image: parseImage(options.image),
    ...workloadFields(shell, { ...options, command: undefined as never }),
    ...(command.length === 0 ? {} : { command: [...command] }),
    gpus: gpusOf(options),
    ...(name === undefined ? {} : { name }),
    ...(input === undefined ? {} : { input: inputOf(shell, input) }),
    ...(maxPrice === undefined ? {} : { maxPricePerHourUsd: String(maxPrice) }),
    ...(maxCost === undefined ? {} : { maxCostUsd: String(maxCost) }),
    ...(timeout === undefined ? {} : { timeoutSeconds: secondsOf(timeout) }),
    ...(retries === undefined ? {} : { retries }),
    ...(priority === undefined ? {} : { priority }),
    ...(array === undefined ? {} : { array: { count: array, ...(parallel === undefined ? {} : { parallel }) } }),
  }
}

function gpusOf({ gpu, count, region, machine }: RunOptions): Record<string, unknown> {
  const memory = /^(\d{1,4}(?:\.\d+)?)\s*gb$/i.exec(gpu ?? '')?.[1]
  const which = gpu === undefined ? {} : memory === undefined ? { model: gpu } : { minMemoryGb: Number(memory) }
  const where = {
    ...(region === undefined ? {} : { region }),
    ...(machine === undefined ? {} : { machineId: machine }),
  }
  return { ...which, ...where, count: count ?? 1 }
}

function inputOf(shell: Shell, text: string): unknown {
  const value = parseJson(text.startsWith('@') ? readTextFile(shell, text.slice(1)) : text)
  if (value === undefined)
    throw new CliError(exitCodes.usage, '--input is not JSON.', ['Example: --input \'{"epochs": 3}\''])
  return value
}

const UNIT_SECONDS = { s: 1, m: 60, h: 3_600, d: 86_400 } as const

function secondsOf(text: string): number {
  const [, number, unit] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  if (number === undefined || unit === undefined)
    throw new CliError(exitCodes.usage, `--timeout ${text} is not valid.`, ['Example: --timeout 30m'])
  return Number(number) * UNIT_SECONDS[unit as keyof typeof UNIT_SECONDS]
}

/** Prints what changes and the log of each attempt until the job has ended. The first Ctrl-C cancels it, the second leaves. */
export async function followJob(session: Session, started: Job, output: string | undefined): Promise<ExitCode> {
  const { client, screen } = session
  const { id } = started
  const stop = new AbortController()
  const cancel = (): void => {
    if (stop.signal.aborted) process.exit(CANCELLED_CODE)
    stop.abort()
    screen.remark(`Cancelling ${id}. Its output is kept.`)
    client.call('cancelJob', { params: { id } }).catch((error: unknown) => screen.remark(String(error)))
  }
  process.on('SIGINT', cancel)
  try {
    const end = await followToEnd(session, started)
    if (
      output !== undefined &&
      end.task !== null &&
      end.task.attempts.some((one) => (one.output?.fileCount ?? 0) > 0)
    ) {
      await downloadOutput(session, id, { output, index: 0 })
      screen.remark(`The output is in ${output}.`)
    }
    if (session.json) screen.show(end, () => [])
    screen.remark(`${jobStateTable[end.state].label}: ${endText(end)}`)
    return exitCodeOf(end) as ExitCode
  } finally {
    process.off('SIGINT', cancel)
  }
}

async function followToEnd(session: Session, started: Job): Promise<Job> {
  const { client, screen } = session
  const { id } = started
  const printedRentals = new Set<number>()
  const never = new AbortController().signal
  let words = ''
  for (let job = started; ;) {
    const now = stateText(job)
    if (now !== words && job.endedAt === null)
      screen.remark(job.tasks === 1 ? `${id} ${now}` : `${id} ${now} ${countsText(job)}`)
    words = now
    for (const attempt of job.task?.attempts ?? []) {
      if (printedRentals.has(attempt.rentalId) || !hasRun(attempt)) continue
      if (await showLog(session, attempt.rentalId, job.endedAt === null)) printedRentals.add(attempt.rentalId)
    }
    if (job.endedAt !== null) {
      await showLastLogs(session, job, printedRentals)
      return job
    }
    await pause(POLL_MS, never)
    job = await client.call('getJob', { params: { id } })
  }
}

function hasRun({ startedAt, exitCode }: JobAttempt): boolean {
  return startedAt !== null || exitCode !== null
}

/** A short command can end before its log is followed, and its host takes a moment to keep the last lines. */
async function showLastLogs(session: Session, { id, task }: Job, printed: ReadonlySet<number>): Promise<void> {
  const never = new AbortController().signal
  for (const attempt of task?.attempts ?? []) {
    if (printed.has(attempt.rentalId) || !hasRun(attempt)) continue
    let isShown = false
    for (let n = 0; n < LAST_LOG_TRIES && !isShown; n += 1) {
      if (n > 0) await pause(POLL_MS, never)
      isShown = await showLog(session, attempt.rentalId, false)
    }
    if (!isShown)
      session.screen.remark(`The log of attempt ${attempt.number} cannot be read yet: berth jobs logs ${id}`)
  }
}

/** False: the log cannot be read now; once the container is gone, its last lines can. */
async function showLog(session: Session, rentalId: number, follow: boolean): Promise<boolean> {
  try {
    const log = await openLogs(session, { id: rentalId }, { tail: LOG_LINES, ...(follow ? { follow: true } : {}) })
    await printLines(log, session)
    return true
  } catch {
    return false
  }
}

/** A job whose turn has not come yet mostly starts at once, so that is not worth a word. */
function stateText({ state, waiting }: Job): string {
  const { label } = jobStateTable[state]
  return waiting === null || waiting.reason === 'turn' || state !== 'Queued' ? label : `${label}: ${waiting.message}`
}

function countsText(job: Job): string {
  return `(${endedTasks(job)} of ${job.tasks} tasks have ended)`
}

function endText({ id, task, costUsd, counts, tasks }: Job): string {
  const cost = `It cost ${money(costUsd)}.`
  if (task === null)
    return `${counts.succeeded} of ${tasks} tasks succeeded. ${cost} To list them: berth jobs tasks ${id}`
  const code = task.exitCode === null || task.exitCode === 0 ? '' : ` Exit code ${task.exitCode}.`
  const hasOutput = task.attempts.some((one) => (one.output?.fileCount ?? 0) > 0)
  const next = hasOutput ? ` Its output: berth jobs results ${id}` : ''
  return `${task.message ?? ''}${code} ${cost}${next}`
}

/** Shells use the same codes. */
function exitCodeOf({ state, task }: Pick<Job, 'state' | 'task'>): number {
  if (state === 'Succeeded') return exitCodes.ok
  if (state === 'TimedOut') return TIMED_OUT_CODE
  if (state === 'Cancelled') return CANCELLED_CODE
  const exitCode = task?.exitCode ?? 0
  return exitCode === 0 ? exitCodes.failed : exitCode
}
