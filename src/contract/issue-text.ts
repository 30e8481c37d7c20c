/** Texts of validation errors, passed to every parse of user input. */
import type { z } from 'zod'

type Fault = z.core.$ZodRawIssue

const missingCodes = new Set<string | undefined>(['invalid_type', 'invalid_value', 'invalid_union'])

/** undefined: the message of the schema, or of the library. */
export function issueText(fault: Fault): string | undefined {
  if (missingCodes.has(fault.code) && fault.input === undefined) return 'Required'
  switch (fault.code) {
    case 'unrecognized_keys':
      return unknownKeyText(fault)
    case 'invalid_type':
      return `Must be ${typeLabels[fault.expected] ?? fault.expected}`
    case 'invalid_value':
      return fault.values.length === 1
        ? `Must be ${JSON.stringify(fault.values[0])}`
        : `Must be one of ${fault.values.map(String).join(', ')}`
    case 'too_small':
      return boundText(fault, fault.minimum, fault.inclusive === false ? 'more than' : 'at least')
    case 'too_big':
      return boundText(fault, fault.maximum, fault.inclusive === false ? 'less than' : 'at most')
    case 'not_multiple_of':
      return `Must be a multiple of ${fault.divisor}`
    case 'invalid_format':
      return formatText[fault.format]
    case 'invalid_union':
    case 'invalid_key':
    case 'invalid_element':
    case 'custom':
    case undefined:
      return undefined
  }
}

const typeLabels: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
}

const formatText: Readonly<Record<string, string>> = {
  email: 'Must be an email address',
  url: 'Must be a URL',
  datetime: 'Must be a time such as 2026-11-01T12:00:00Z',
  date: 'Must be a date such as 2026-11-01',
}

const units: Readonly<Record<string, readonly [one: string, many: string]>> = {
  string: ['character', 'characters'],
  array: ['entry', 'entries'],
}

function boundText(
  fault: { readonly origin: string; readonly exact?: boolean | undefined },
  bound: number | bigint,
  comparison: string,
): string {
  const unit = units[fault.origin]
  if (unit === undefined) return `Must be ${comparison} ${bound}`
  if (bound === 1 && comparison === 'at least') return 'Must not be empty'
  return `Must have ${fault.exact === true ? 'exactly' : comparison} ${bound} ${unit[bound === 1 ? 0 : 1]}`
}

function unknownKeyText(fault: Fault): string {
  const shape = (fault.inst as { _zod?: { def?: { shape?: object } } } | undefined)?._zod?.def?.shape
  return shape === undefined ? 'Unknown key' : `Unknown key; allowed: ${Object.keys(shape).join(', ')}`
}
