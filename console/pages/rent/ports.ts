/** Ports, as people type them: `8080, 8888`. */
import { limits } from '../../../src/base/limits.ts'

const HIGHEST = 65_535

export const portsHint = `TCP ports to reach from outside, ${limits.customPorts} at most.`

export function readPorts(text: string): { readonly ports: number[]; readonly fault?: string } {
  const words = text.split(/[\s,;]+/).filter(Boolean)
  const wrong = words.find((word) => !/^\d{1,5}$/.test(word) || Number(word) < 1 || Number(word) > HIGHEST)
  if (wrong !== undefined) return { ports: [], fault: `${wrong} is no port: they are numbers from 1 to ${HIGHEST}` }
  const ports = [...new Set(words.map(Number))]
  if (ports.length > limits.customPorts) return { ports: [], fault: `At most ${limits.customPorts} ports` }
  return { ports }
}
