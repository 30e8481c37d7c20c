/** The minimal Node proxy as one side of a comparison. */
import { startChild } from './child.ts'
import { plainHeaders, type Side } from './side.ts'

export const PLAIN_PROXY = 'plain Node proxy'

/** `program`: the Node that runs it. */
export async function startPlainProxy(
  upstreamPort: number,
  { name = PLAIN_PROXY, program = process.execPath } = {},
): Promise<Side> {
  const child = startChild('plain-proxy-child.ts', [String(upstreamPort)], program)
  const port = Number.parseInt(await child.nextLine(), 10)
  return { name, port, pid: child.pid, headers: plainHeaders, stop: () => child.stop() }
}
