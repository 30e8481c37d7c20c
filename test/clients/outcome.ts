/** Outcomes of promises that may reject. */
import { expect } from 'vitest'

/** The rejection; undefined if it resolved. */
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
