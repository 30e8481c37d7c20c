/** Templates as text: as shown in a table, and the JSON that people edit. */
import type { Reply } from '../../../src/client/client.ts'
import { imageLabel } from '../../../src/view/rental.ts'

type Template = Reply<'getTemplate'>

export function imageText({ image }: Pick<Template, 'image'>): string {
  return imageLabel(image)
}

export function portsText({ ports = [] }: Pick<Template, 'ports'>): string {
  return ports.map((port) => (typeof port === 'object' ? `${port.port}/${port.protocol}` : String(port))).join(', ')
}

export function templateOfText(text: string): Record<string, unknown> {
  const value = parse(text)
  return isObject(value) ? value : {}
}

/** Returns the fault in the text. undefined: it is a JSON object. */
export function templateFault(text: string): string | undefined {
  return isObject(parse(text)) ? undefined : 'Must be a JSON object'
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
