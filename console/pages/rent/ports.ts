/** Ports as people type them: `8080, 8888/http`. */
import { limits } from '../../../src/base/limits.ts'

export const portsHint = `TCP ports such as 8080, or 8888/http for a web page that only you can open; up to ${limits.customPorts}.`

/** Empty text is left out of the request; anything that is not a port is rejected by the schema. */
export function portsOf(text: string): Array<number | string> | undefined {
  const words = text.split(/[\s,;]+/).filter(Boolean)
  if (words.length === 0) return undefined
  return [...new Set(words.map((word) => (/^\d+$/.test(word) ? Number(word) : word)))]
}

/** The schema's own words would be those of three forms at once. */
export function portsFault(text: string): string | undefined {
  const wrong = text.split(/[\s,;]+/).find((word) => !/^(\d{1,5}(\/(http|tcp|udp))?)?$/.test(word))
  return wrong === undefined ? undefined : `Write a port such as 8888 or 8888/http, not ${wrong.slice(0, 20)}`
}
