/** `berth run` and `berth jobs`: commands that run once on the cheapest GPUs, and what they leave. */
import path from 'node:path'
import { pause } from '../../client/pause.ts'
import {
  attemptEnd,
  costText,
  jobLabel,
  outputText,
  tasksText,
  type Job,
  type JobSummary as Summary,
  type JobTask as Task,
} from '../../view/job.ts'
import { money } from '../../view/money.ts'
import { localTime } from '../../view/time.ts'
import { parseWhole } from '../kit/flag.ts'
import { act, custom, list, show } from '../kit/row.ts'
import { toned, type Cell, type Content } from '../kit/screen.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import { targetOf } from '../kit/target.ts'
import type { Call, Row } from '../kit/row-type.ts'
import { openLogs, printLines } from './machine-session.ts'
import { downloadOutput, type ResultOptions } from './job-output.ts'
import { followJob, runOptions, startJob, type RunOptions } from './job-run.ts'

const job = targetOf<Summary>('job', 'berth jobs ls', {
  read: async (client, idOrName) => {
    const { jobs } = await client.call('listJobs')
    const isListed = jobs.some(({ id, name }) => id === idOrName || name === idOrName)
    return isListed || !idOrName.startsWith('job_') ? jobs : [await client.call('getJob', { params: { id: idOrName } })]
  },
  id: 'id',
  name: 'name',
})

const LINES = 1_000
const POLL_MS = 1_000
const MAX_LINES = 100_000
const INDEX = {
  '--index <n>': { help: 'task of an array', parse: parseWhole(0, 999_999), default: 0 },
} as const

interface LogOptions {
  readonly follow?: true
  readonly tail: number
  readonly index: number
  readonly attempt?: number
}

export const rows: readonly Row[] = [
  custom<RunOptions>('run', 'run a command once on the cheapest GPUs, and show its log', {
    who: 'customer',
    args: { '[command...]': "command to run (default: the image's own)" },
    options: runOptions,
    run: async (call) => {
      const { session, options } = call
      const started = await startJob(call, (call.args[0] ?? []) as string[])
      if (options.detach === true) {
        session.screen.show(started, () => [`Started ${started.id}.`, `To follow it: berth jobs logs ${started.id} -f`])
        return exitCodes.ok
      }
      return followJob(session, started, options.output)
    },
    notes:
      'It waits for a free machine, and ends with the exit code of the command: 124\n' +
      'when it is out of time, 130 when it was cancelled. Ctrl-C cancels the job; its\n' +
      'output is kept. Files in /berth/output are kept for 30 days.',
    examples: [
      'berth run --gpu 24gb --image pytorch/pytorch -- python train.py',
      'berth run --gpu h100 --image debian:12 --output ./results -- nvidia-smi',
      'berth run --gpu 4090 --image debian:12 --array 20 --parallel 4 -- ./part.sh',
    ],
  }),
  list('jobs ls', 'listJobs', 'list jobs, newest first', {
    noun: 'job',
    columns: [
      { JOB: ({ id, name }) => name ?? id, STATE: stateCell, TASKS: tasksText, COST: ({ costUsd }) => money(costUsd) },
      { CREATED: ({ createdAt }) => localTime(createdAt), WAITING: ({ waiting }) => waiting?.message },
    ],
    wide: ['id', 'image', 'priority'],
    flags: { state: 'only jobs in this state' },
    empty: 'To run one: berth run --gpu 24gb --image IMAGE -- COMMAND',
  }),
  show<'getJob', unknown, Summary>('jobs show', 'getJob', 'show a job with its attempts and results', {
    target: job,
    facts: [
      {
        Job: ({ id, name }) => (name === null ? id : `${name} (${id})`),
        State: stateCell,
        Reason: ({ task }) => task?.message,
        'Exit code': ({ task }) => (task?.exitCode === null ? undefined : task?.exitCode.toString()),
        Waiting: ({ waiting, place }) => (waiting === null ? undefined : `${waiting.message} Place ${place ?? 1}.`),
        Tasks: tasksText,
        Image: ({ image }) => image,
        Command: ({ command, args }) => [...(command ?? []), ...(args ?? [])].join(' ') || undefined,
        Cost: costText,
        Created: ({ createdAt }) => localTime(createdAt),
        Ended: ({ endedAt }) => (endedAt === null ? undefined : localTime(endedAt)),
        'Deleted after': ({ deletedAfter }) => (deletedAfter === null ? undefined : localTime(deletedAfter)),
      },
    ],
    content: ({ id, task }) => (task === null ? ['', `To list its tasks: berth jobs tasks ${id}`] : attemptLines(task)),
  }),
  list<'listJobTasks', undefined, unknown, Summary>('jobs tasks', 'listJobTasks', 'list the tasks of an array', {
    target: job,
    noun: 'task',
    only: ['limit'],
    columns: [
      'index',
      {
        STATE: stateCell,
        'EXIT CODE': ({ exitCode }) => exitCode?.toString(),
        ATTEMPTS: ({ attempts }) => `${attempts.length}`,
      },
      { REASON: ({ message }) => message },
    ],
  }),
  act<'cancelJob', unknown, Summary>('jobs cancel', 'cancelJob', 'cancel a job; its output is kept', {
    target: job,
    done: ({ id, state, endedAt }) =>
      endedAt === null ? `${id} is being cancelled.` : `${id} has ended: ${jobLabel(state)[0].toLowerCase()}.`,
  }),
  custom<LogOptions, Summary>('jobs logs', 'print the log of a job; with -f, follow it', {
    target: job,
    who: 'customer',
    options: {
      '-f, --follow': 'keep printing until it ends or Ctrl-C',
      '--tail <n>': { help: 'number of last lines to start with', parse: parseWhole(0, MAX_LINES), default: LINES },
      ...INDEX,
      '--attempt <n>': { help: 'attempt of the task (default: the last)', parse: parseWhole(1, 1_000) },
    },
    run: async ({ session, options, target }) => {
      const task = await startedTaskOf(session, target.id, options)
      const attempt = options.attempt === undefined ? task.attempts.at(-1) : task.attempts[options.attempt - 1]
      if (attempt === undefined)
        throw new CliError(exitCodes.failed, 'This task has not started yet.', [
          `To see why: berth jobs show ${target.id}`,
        ])
      await printLines(await openLogs(session, { id: attempt.rentalId }, options), session)
    },
  }),
  custom<ResultOptions, Summary>('jobs results', 'download the output of a job into a folder', {
    target: job,
    who: 'customer',
    options: {
      '-o, --output <folder>': { help: 'folder to write to', default: '.' },
      ...INDEX,
      '--attempt <n>': { help: 'attempt of the task (default: the last with output)', parse: parseWhole(1, 1_000) },
    },
    run: async ({ session, options, target }) => {
      await downloadOutput(session, target.id, options)
      session.screen.show({ folder: path.resolve(options.output) }, () => [`Written to ${options.output}.`])
    },
    examples: ['berth jobs results train -o ./results'],
  }),
]

/** With --follow, waits until it has started. */
async function startedTaskOf(
  session: Pick<Call['session'], 'client'>,
  id: string,
  { follow, index }: LogOptions,
): Promise<Task> {
  const never = new AbortController().signal
  for (;;) {
    const task = await taskOf(session, id, index)
    if (follow !== true || task.endedAt !== null || task.attempts.some(({ startedAt }) => startedAt !== null))
      return task
    await pause(POLL_MS, never)
  }
}

async function taskOf({ client }: Pick<Call['session'], 'client'>, id: string, index: number): Promise<Task> {
  const { tasks } = await client.call('listJobTasks', { params: { id }, query: { index } })
  const [task] = tasks
  if (task === undefined)
    throw new CliError(exitCodes.failed, `The job has no task ${index}.`, [`To list them: berth jobs tasks ${id}`])
  return task
}

function stateCell({ state }: Pick<Job, 'state'>): Cell {
  const [label, tone] = jobLabel(state)
  return toned(tone, label)
}

function attemptLines({ attempts }: Task): Content[] {
  return attempts.flatMap((one) => {
    const output = outputText(one)
    const files = output === undefined ? '' : `, ${output}`
    const line = `Attempt ${one.number} on ${one.machineId} (${one.rentalName}): ${attemptEnd(one)}, ${money(one.costUsd)}${files}`
    return ['', line, ...(one.result === null ? [] : [`Result: ${JSON.stringify(one.result)}`])]
  })
}
