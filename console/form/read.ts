/**
 * Converts typed text to values of a request. Empty text is left out; text that is not a number becomes NaN, which
 * schemas reject.
 */
import type { z } from 'zod'
import { issueText } from '../../src/contract/issue-text.ts'

export function optionalText(text: string): string | undefined {
  return text.trim() || undefined
}

export function optionalNumber(text: string): number | undefined {
  const typed = text.trim()
  if (typed === '') return undefined
  return /^-?\d+(\.\d+)?$/.test(typed) ? Number(typed) : Number.NaN
}

/** The schema's first error about a value; undefined: it is valid. */
export function faultOf(schema: z.ZodType, value: unknown): string | undefined {
  return schema.safeParse(value, { error: issueText }).error?.issues[0]?.message
}
