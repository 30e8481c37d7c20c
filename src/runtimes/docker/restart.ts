/**
 * Restarts of a container whose program exited, as its order asks for them. The daemon's own restart policy is not used:
 * exits would go unseen, and nothing would say why a container fails in the end.
 */
import { parseInstant, type Instant } from '../../base/instant.ts'
import type { Program } from '../../contract/agent.ts'

export type RestartRule = Program['restart']

export interface Exit {
  readonly code: number
  /** Times in the daemon's format. */
  readonly startedAt: string
  readonly finishedAt: string
}

/** Restarts in a row, and the exit that the last one followed. */
export interface Restarts {
  readonly count: number
  readonly finishedAt: string
}

/** A container that ran this long works: its next exit begins a new row. */
const STABLE_MS = 10 * 60_000
const WAITS_MS = [1_000, 2_000, 5_000, 10_000, 20_000, 30_000] as const

/** undefined: the program is not started again. */
export function nextRestart(
  rule: RestartRule | undefined,
  before: Restarts | undefined,
  exit: Exit,
  now: Instant,
): { readonly count: number; readonly waitMs: number } | undefined {
  if (rule === undefined || rule.policy === 'never') return undefined
  if (rule.policy === 'on-failure' && exit.code === 0) return undefined
  const finishedAt = parseInstant(exit.finishedAt) ?? now
  const count = countOf(before, exit, finishedAt)
  if (count > rule.maxRetries) return undefined
  const waitMs = WAITS_MS[Math.min(count, WAITS_MS.length) - 1] ?? 0
  // The clocks of the daemon and of the agent may differ.
  return { count, waitMs: Math.min(Math.max(finishedAt + waitMs - now, 0), waitMs) }
}

function countOf(before: Restarts | undefined, exit: Exit, finishedAt: Instant): number {
  if (before === undefined) return 1
  // A restart that was interrupted: this exit is counted already.
  if (before.finishedAt === exit.finishedAt) return before.count
  const ranMs = finishedAt - (parseInstant(exit.startedAt) ?? finishedAt)
  return ranMs >= STABLE_MS ? 1 : before.count + 1
}
