/**
 * Loads ssh2 at first use: loading takes a tenth of the start time of a server, and most servers have no bare-metal
 * hosts.
 */
import { createRequire } from 'node:module'
import type ssh2 from 'ssh2'

let loaded: typeof ssh2 | undefined

export function sshLibrary(): typeof ssh2 {
  loaded ??= createRequire(import.meta.url)('ssh2') as typeof ssh2
  return loaded
}
