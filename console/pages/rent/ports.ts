/** Ports as people type them: `8080, 8888/http`. */
import { limits } from '../../../src/base/limits.ts'

export const portsHint = `TCP ports such as 8080, or 8888/http for a web page that only you can open; up to ${limits.customPorts}.`

/** Empty text is left out of the request; anything that is not a port is rejected by the schema. */
export function portsOf(text: string): Array<number | string> | undefined {
  const words = text.split(/[\s,;]+/).filter(Boolean)
  if (words.length === 0) return undefined
  return [...new Set(words.map((word) => (/^\d+$/.test(word) ? Number(word) : word)))]
}
