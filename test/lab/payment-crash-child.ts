/** The child of a crash run of payments (payment-crash.ts): a whole server on a fast clock, until it is killed. */
import { pino } from 'pino'
import { serve } from '../../src/server/serve.ts'
import { readSettings } from '../../src/server/settings.ts'
import { fastClock } from '../harness/fast-clock.ts'

/** Arguments: the settings as JSON, the start of the fast clock, and what it has skipped since. */
export async function runPaymentServer(args: readonly string[]): Promise<void> {
  const [env = '{}', epoch = '0', aheadMs = '0'] = args
  const settings = readSettings(JSON.parse(env) as Record<string, string>)
  const clock = fastClock(Number.parseInt(epoch, 10), Number.parseInt(aheadMs, 10))
  const server = await serve(settings, { clock, log: pino({ level: 'silent' }), checkResponses: true })
  // The parent is gone: nobody will kill this process.
  process.once('disconnect', () => process.exit(0))
  process.send?.(server.url)
}
