/** What became of work that may be refused. */
import { expect } from 'vitest'

/** What it was rejected with; undefined where it was not. */
export async function outcomeOf(work: PromiseLike<unknown>): Promise<unknown> {
  try {
    await work
    return undefined
  } catch (error) {
    return error
  }
}

export async function failureOf(work: PromiseLike<unknown>): Promise<unknown> {
  const error = await outcomeOf(work)
  expect(error, 'it is refused').toBeDefined()
  return error
}
