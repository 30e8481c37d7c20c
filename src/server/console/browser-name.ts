/** The name of a browser for people: "Firefox on Linux". */
import type { FastifyRequest } from 'fastify'

export function browserName({ headers }: FastifyRequest): string {
  const agent = headers['user-agent'] ?? ''
  const browser = browsers.find(([, pattern]) => pattern.test(agent))?.[0] ?? 'A browser'
  const system = systems.find(([, pattern]) => pattern.test(agent))?.[0]
  return system === undefined ? browser : `${browser} on ${system}`
}

/** The first match counts, because most browsers also name others. */
const browsers = [
  ['Firefox', /Firefox\//],
  ['Edge', /Edg\//],
  ['Opera', /OPR\//],
  ['Chrome', /Chrom(e|ium)\//],
  ['Safari', /Safari\//],
] as const

const systems = [
  ['Android', /Android/],
  ['iOS', /iPhone|iPad/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS X/],
  ['Linux', /Linux/],
] as const
