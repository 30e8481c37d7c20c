/** The minimal Node proxy as one side of a comparison. */
import { startChild } from './child.ts'
import { plainHeaders, type Side } from './side.ts'

export const PLAIN_PROXY = 'plain Node proxy'

export async function startPlainProxy(upstreamPort: number): Promise<Side> {
  const child = startChild('plain-proxy-child.ts', [String(upstreamPort)])
  const port = Number.parseInt(await child.nextLine(), 10)
  return { name: PLAIN_PROXY, port, pid: child.pid, headers: plainHeaders, stop: () => child.stop() }
}
