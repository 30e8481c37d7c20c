/** The values that a handler answers. */
import { expect } from 'vitest'
import type { z } from 'zod'
import type { Result } from '../../src/contract/result.ts'

/** The value of a result, once it can be sent and read back by the contract's schema. */
export function valueOf<T>(result: Result<T>, schema: z.ZodType): T {
  if (!result.ok) throw new Error(result.message)
  expect(schema.parse(schema.encode(result.value))).toEqual(result.value)
  return result.value
}
