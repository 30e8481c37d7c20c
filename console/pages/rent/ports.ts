/** Ports as people type them: `8080, 8888`. */
import { limits } from '../../../src/base/limits.ts'
import { optionalNumber } from '../../form/read.ts'

export const portsHint = `TCP ports to expose, up to ${limits.customPorts}.`

/** Empty text is left out of the request; anything that is not a number is rejected by the schema. */
export function portsOf(text: string): number[] | undefined {
  const words = text.split(/[\s,;]+/).filter(Boolean)
  return words.length === 0 ? undefined : [...new Set(words.map((word) => optionalNumber(word) ?? Number.NaN))]
}
