/** Logs requests that engines failed to answer. */
import type { Logger } from 'pino'
import { makeLineLimit } from '../../base/net/line-limit.ts'
import type { GatewayOptions } from '../../gateway/gateway.ts'

/** Log lines for failures of one account at one deployment. */
const MAX_LINES_PER_MINUTE = 10

/** A caller whose requests fail must not fill the log. */
export function logFailures(log: Logger): GatewayOptions['warn'] {
  const lines = makeLineLimit({ perMinute: MAX_LINES_PER_MINUTE })
  return (failure) => {
    const line = lines.take(`${failure.accountId} ${failure.deployment ?? failure.model}`)
    if (line !== undefined) log.warn({ ...failure, ...line }, 'engine failed')
  }
}
