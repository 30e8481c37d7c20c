/**
 * Evaluates a prompt in a sequence, in parts: other requests share each batch, and a cancelled request stops after the
 * current part.
 */
import type { LlamaContextSequence, Token } from 'node-llama-cpp'
import { commonPrefix } from './scheduler.ts'

/**
 * For each sequence: how many tokens from its beginning were evaluated as whole parts that start at a multiple of
 * `PART_TOKENS`. Batches of another size give slightly different results (kernels round differently), and then a nearly
 * equally likely token may be taken instead.
 */
const exactTokens = new WeakMap<object, number>()

/** The part of a sequence's interface used here. */
export type PromptSequence = Pick<
  LlamaContextSequence,
  'contextTokens' | 'needsCheckpoints' | 'eraseContextTokenRanges' | 'evaluateWithoutGeneratingNewTokens'
>

export interface PromptTally {
  /** The number of tokens reused. */
  reused(tokens: number): void
  evaluated(tokens: number): void
}

export interface PromptWork {
  readonly prompt: readonly Token[]
  /** The answer must not depend on earlier use of the sequence: only whole parts of prompts are reused. */
  readonly repeatable: boolean
  readonly tally: PromptTally
  readonly signal: AbortSignal
}

/** On a CPU larger parts are hardly faster, and a cancelled request blocks the others until its part ends. */
const PART_TOKENS = 32

/** Returns the tokens left for the first sampling. undefined: cancelled. */
export async function evaluatePrompt(sequence: PromptSequence, work: PromptWork): Promise<Token[] | undefined> {
  const { prompt, repeatable, tally, signal } = work
  if (signal.aborted) return undefined
  const reused = await keepPrefix(sequence, prompt, repeatable)
  tally.reused(reused)
  let remaining = prompt.slice(reused)
  while (remaining.length > PART_TOKENS) {
    if (signal.aborted) return undefined
    await sequence.evaluateWithoutGeneratingNewTokens(remaining.slice(0, PART_TOKENS))
    const start = prompt.length - remaining.length
    if (start === exactTokens.get(sequence)) exactTokens.set(sequence, start + PART_TOKENS)
    tally.evaluated(PART_TOKENS)
    remaining = remaining.slice(PART_TOKENS)
  }
  if (signal.aborted) return undefined
  tally.evaluated(remaining.length)
  return remaining
}

/** Drops everything after the beginning shared with this prompt, and returns the number of tokens kept. */
async function keepPrefix(sequence: PromptSequence, prompt: readonly Token[], repeatable: boolean): Promise<number> {
  const context = sequence.contextTokens
  const exact = exactTokens.get(sequence) ?? 0
  // The last token must be evaluated to predict the next one.
  const common = Math.min(commonPrefix(context, prompt), prompt.length - 1)
  const shared = repeatable ? wholeParts(Math.min(common, exact)) : common
  // Models with a recurrent state can keep all of it or nothing.
  const keepLength = sequence.needsCheckpoints && shared < context.length ? 0 : shared
  if (keepLength < context.length) await sequence.eraseContextTokenRanges([{ start: keepLength, end: context.length }])
  exactTokens.set(sequence, wholeParts(Math.min(keepLength, exact)))
  return keepLength
}

function wholeParts(tokens: number): number {
  return tokens - (tokens % PART_TOKENS)
}
