/** Jobs: labels, counts of tasks, and the image as people type it. */
import type { Reply } from '../client/client.ts'
import { jobStates, jobStateTable, type JobState } from '../contract/job-state.ts'
import { money } from './money.ts'
import { count, number } from './number.ts'
import type { Tone } from './tone.ts'

export type Job = Reply<'getJob'>
export type JobSummary = Reply<'listJobs'>['jobs'][number]
export type JobTask = Reply<'listJobTasks'>['tasks'][number]
export type JobAttempt = JobTask['attempts'][number]

/** A newer server may have more states. */
export function jobLabel(state: JobState): readonly [label: string, tone: Tone] {
  if (!jobStates.includes(state)) return [state, 'plain']
  const { label, tone } = jobStateTable[state]
  return [label, tone]
}

/** `20: 3 running, 17 succeeded`; undefined: the job has no array. */
export function tasksText({ tasks, counts }: Pick<JobSummary, 'tasks' | 'counts'>): string | undefined {
  if (tasks === 1) return undefined
  const parts = Object.entries(counts).flatMap(([name, n]) =>
    n === 0 ? [] : [`${number(n)} ${name === 'timedOut' ? 'timed out' : name}`],
  )
  return `${number(tasks)}: ${parts.join(', ')}`
}

export function endedTasks({ counts }: Pick<JobSummary, 'counts'>): number {
  return counts.succeeded + counts.failed + counts.cancelled + counts.timedOut
}

/** `runs`, `succeeded`, `timed out`. */
export function attemptEnd({ endedAt, outcome }: Pick<JobAttempt, 'endedAt' | 'outcome'>): string {
  return endedAt === null ? 'runs' : (outcome ?? '').replaceAll('_', ' ')
}

/** `2 files of output`, or why they were not kept. undefined: there is none. */
export function outputText({ output }: Pick<JobAttempt, 'output'>): string | undefined {
  if (output === null) return undefined
  const files = output.fileCount === 0 ? undefined : `${count(output.fileCount, 'file')} of output`
  if (output.problem === null) return files
  return [files, `not kept: ${output.problem}`].filter(Boolean).join(', ')
}

export function costText({ costUsd, maxCostUsd }: Pick<Job, 'costUsd' | 'maxCostUsd'>): string {
  return maxCostUsd === null ? money(costUsd) : `${money(costUsd)} of at most ${money(maxCostUsd)}`
}

/** `debian:12`. A port of a registry also follows a colon. */
export function parseImage(text: string): { readonly name: string; readonly tag?: string } {
  const [, name, tag] = /^(.+):([\w][\w.-]{0,127})$/.exec(text.trim()) ?? []
  return name === undefined || tag === undefined ? { name: text.trim() } : { name, tag }
}
