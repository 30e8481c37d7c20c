/**
 * Subnets for lab networks. Several labs run at once, so each kind of lab uses its own range: a subnet found free
 * cannot be taken by another kind of lab before its route exists.
 */
import { execFileSync } from 'node:child_process'
import { randomInt } from 'node:crypto'

/** Range of the second octet in 10.0.0.0/8, upper end excluded; and the number of /24 blocks per subnet. */
const ranges = {
  storage: { from: 1, to: 20, span: 1 },
  hosts: { from: 20, to: 110, span: 1 },
  metal: { from: 110, to: 130, span: 1 },
  inner: { from: 130, to: 250, span: 8 },
} as const
const TRIES = 50

export interface FreeSubnet {
  /** The first three octets of its first addresses, such as `10.1.2`. */
  readonly prefix: string
  /** Such as `10.1.2.0/24`. */
  readonly subnet: string
}

export type SubnetKind = keyof typeof ranges

export function freeSubnet(kind: SubnetKind): FreeSubnet {
  const { from, to, span } = ranges[kind]
  for (let tries = 1; tries <= TRIES; tries += 1) {
    const prefix = `10.${randomInt(from, to)}.${randomInt(256 / span) * span}`
    const subnet = `${prefix}.0/${24 - Math.log2(span)}`
    if (isFree(subnet)) return { prefix, subnet }
  }
  throw new Error('no free subnet was found')
}

/** No route overlaps with it, apart from the default route. */
function isFree(subnet: string): boolean {
  const show = (how: 'root' | 'match'): string =>
    execFileSync('ip', ['-4', 'route', 'show', 'table', 'all', how, subnet], { encoding: 'utf8' })
  const around = show('match').split('\n')
  return show('root').trim() === '' && around.every((line) => line === '' || line.startsWith('default'))
}
