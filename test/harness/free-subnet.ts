/**
 * Subnets for the networks of labs. Several run at a time, so each kind of lab draws from a range that no other kind
 * uses: what one has found free cannot be taken by another kind before it is in the table of routes.
 */
import { execFileSync } from 'node:child_process'
import { randomInt } from 'node:crypto'

/** The second number of an address in 10.0.0.0/8, from and up to but not with; how many /24 one subnet spans. */
const ranges = {
  storage: { from: 1, to: 20, span: 1 },
  hosts: { from: 20, to: 110, span: 1 },
  metal: { from: 110, to: 130, span: 1 },
  inner: { from: 130, to: 250, span: 8 },
} as const
const TRIES = 50

export interface FreeSubnet {
  /** The first three numbers of its first addresses, as `10.1.2`. */
  readonly prefix: string
  /** As `10.1.2.0/24`. */
  readonly subnet: string
}

export function freeSubnet(kind: keyof typeof ranges): FreeSubnet {
  const { from, to, span } = ranges[kind]
  for (let tries = 1; tries <= TRIES; tries += 1) {
    const prefix = `10.${randomInt(from, to)}.${randomInt(256 / span) * span}`
    const subnet = `${prefix}.0/${24 - Math.log2(span)}`
    if (isFree(subnet)) return { prefix, subnet }
  }
  throw new Error('no free subnet was found')
}

/** No route leads into it or to something around it, but the one to the world. */
function isFree(subnet: string): boolean {
  const show = (how: 'root' | 'match'): string =>
    execFileSync('ip', ['-4', 'route', 'show', 'table', 'all', how, subnet], { encoding: 'utf8' })
  const around = show('match').split('\n')
  return show('root').trim() === '' && around.every((line) => line === '' || line.startsWith('default'))
}
