/**
 * The file beside a server's keys with its address, so that a command with such a key finds the server. A killed server
 * leaves the file behind, so it also identifies the process.
 */
import os from 'node:os'
import { processStart } from '../process-start.ts'

export const ADDRESS_FILE = 'server.json'

export interface ServerAddress {
  readonly url: string
  /** `unknown`: started on another machine or in a container, whose processes are not visible here. */
  readonly state: 'running' | 'ended' | 'unknown'
}

/** Writes the address of this process. */
export function formatAddress(url: string): string {
  const { pid } = process
  // A server that listens on all addresses is reachable on this machine by loopback.
  const reachable = url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:')
  return `${JSON.stringify({ url: reachable, pid, started: processStart(pid) ?? null, host: os.hostname() })}\n`
}

/** undefined: not an address file. */
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
