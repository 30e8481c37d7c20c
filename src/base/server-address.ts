/**
 * The file in which a server keeps its address beside its keys, so that a command with such a key finds the server
 * that it belongs to. A server that was killed leaves the file behind, so it names the process too.
 */
import os from 'node:os'
import { processStart } from './process-start.ts'

export const ADDRESS_FILE = 'server.json'

export interface ServerAddress {
  readonly url: string
  /** `unknown`: it was started on another machine or in a container, whose processes cannot be seen from here. */
  readonly state: 'running' | 'ended' | 'unknown'
}

/** Of the server that is this process. */
export function formatAddress(url: string): string {
  const { pid } = process
  // A server that listens everywhere is reached on this machine by its loopback address.
  const reachable = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
  return `${JSON.stringify({ url: reachable, pid, started: processStart(pid) ?? null, host: os.hostname() })}\n`
}

/** undefined: this is no such file. */
export function parseAddress(text: string): ServerAddress | undefined {
  try {
    const { url, pid, started, host } = JSON.parse(text) as Record<string, unknown>
    if (typeof url !== 'string' || !URL.canParse(url) || typeof pid !== 'number') return undefined
    if (host !== os.hostname()) return { url, state: 'unknown' }
    return { url, state: started !== null && processStart(pid) === started ? 'running' : 'ended' }
  } catch {
    return undefined
  }
}
