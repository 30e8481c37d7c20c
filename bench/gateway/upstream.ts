/** The engine behind all sides of a comparison: one process. */
import { startChild } from './child.ts'
import { upstreamKinds, type UpstreamKind } from './upstream-answer.ts'

export interface Upstream {
  readonly pid: number
  readonly ports: Readonly<Record<UpstreamKind, number>>
  stop(): Promise<void>
}

export async function startUpstream(): Promise<Upstream> {
  const child = startChild('upstream-child.ts')
  const ports = JSON.parse(await child.nextLine()) as Record<UpstreamKind, number>
  const missing = upstreamKinds.filter((kind) => !Number.isInteger(ports[kind]))
  if (missing.length > 0) throw new Error(`the upstream has no port for ${missing.join(', ')}`)
  return { pid: child.pid, ports, stop: () => child.stop() }
}
