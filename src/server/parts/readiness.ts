/** Whether a server can answer requests, from the checks of its parts. */
import type { Readiness } from '../http/operation-routes.ts'
import type { Checks } from './part.ts'

const READY_MS = 2_000

export const DRAINING: Readiness = { ok: false, reason: 'draining', checks: {} }

/** A check: whether the work succeeds soon. */
export function answersInTime(work: (signal: AbortSignal) => Promise<unknown>): Promise<string> {
  const timeout = new Promise<string>((resolve) => setTimeout(() => resolve('no answer in time'), READY_MS).unref())
  const outcome = work(AbortSignal.timeout(READY_MS)).then(
    () => 'ok',
    () => 'not responding',
  )
  return Promise.race([outcome, timeout])
}

export async function readiness(checks: Checks): Promise<Readiness> {
  const results: Record<string, string> = {}
  for (const [name, check] of Object.entries(checks)) results[name] = await check()
  const failing = Object.keys(results).find((name) => results[name] !== 'ok')
  return failing === undefined ? { ok: true, checks: results } : { ok: false, reason: failing, checks: results }
}
