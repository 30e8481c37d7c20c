/**
 * Ports that neither other test workers nor the system use: the system's ephemeral range is above them. For servers
 * that restart at the same address, and for the ports that a server relays.
 */
import { randomInt } from 'node:crypto'

const [FROM, TO] = [10_000, 32_000]
const WORKERS = 8
const EACH = Math.floor((TO - FROM) / WORKERS)

const worker = Number.parseInt(process.env['VITEST_POOL_ID'] ?? '0', 10) % WORKERS
const first = FROM + worker * EACH
/** Another run on the same machine starts elsewhere. */
let taken = randomInt(EACH)

/** The first of this many consecutive ports. */
export function ownPorts(count = 1): number {
  if (taken + count > EACH) taken = 0
  const at = first + taken
  taken += count
  return at
}

const RELAYED = 100

/** For `BERTH_RELAY_PORTS`. */
export function relayPorts(): string {
  const from = ownPorts(RELAYED)
  return `${from}-${from + RELAYED - 1}`
}
