/** Whether a server can answer: its database, its machine engines, its journal and its workers. */
import type { App } from '../../app/app.ts'
import type { Journal } from '../../gateway/journal/journal.ts'
import { pingDatabase } from '../../store/platform/database.ts'
import type { Readiness } from '../http/http.ts'
import type { Workers } from '../workers/workers.ts'

const READY_MS = 2_000

export const DRAINING: Readiness = { ok: false, reason: 'draining', checks: {} }

export async function readiness(app: App, journal: Journal, workers: Workers | undefined): Promise<Readiness> {
  const check = async (work: Promise<unknown>): Promise<string> => {
    const late = new Promise<string>((resolve) => setTimeout(() => resolve('no answer in time'), READY_MS).unref())
    return Promise.race([
      work.then(
        () => 'ok',
        () => 'not responding',
      ),
      late,
    ])
  }
  const checks: Record<string, string> = { database: await check(pingDatabase(app.database)) }
  // Another cloud that is down takes only its own machines off sale.
  for (const driver of [...app.drivers.values()].filter(({ providers }) => providers === undefined))
    checks[driver.id] = await check(driver.check(AbortSignal.timeout(READY_MS)))
  checks['journal'] = await journal.state()
  if (workers !== undefined) checks['workers'] = await workers.state()
  const failing = Object.keys(checks).find((name) => checks[name] !== 'ok')
  return failing === undefined ? { ok: true, checks } : { ok: false, reason: failing, checks }
}
