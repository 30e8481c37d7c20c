/**
 * Puts a prompt into a sequence. It is evaluated in parts, so that others get their turn in each batch, and a request
 * that was cancelled is left after the part that is being worked on.
 */
import type { LlamaContextSequence, Token } from 'node-llama-cpp'
import { commonPrefix } from './scheduler.ts'

/** What is asked of a sequence here. */
export type PromptSequence = Pick<
  LlamaContextSequence,
  'contextTokens' | 'needsCheckpoints' | 'eraseContextTokenRanges' | 'evaluateWithoutGeneratingNewTokens'
>

export interface PromptTally {
  /** So many tokens were there already. */
  reused(tokens: number): void
  evaluated(tokens: number): void
}

export interface PromptWork {
  readonly prompt: readonly Token[]
  readonly tally: PromptTally
  readonly signal: AbortSignal
}

/** On a CPU larger parts are hardly faster, and a part is how long a cancelled request stays, and all others wait. */
const PART_TOKENS = 32

/** Gives back the tokens that are left for the first sampling; undefined: cancelled. */
export async function evaluatePrompt(sequence: PromptSequence, work: PromptWork): Promise<Token[] | undefined> {
  const { prompt, tally, signal } = work
  if (signal.aborted) return undefined
  const reused = await keepPrefix(sequence, prompt)
  tally.reused(reused)
  let rest = prompt.slice(reused)
  while (rest.length > PART_TOKENS) {
    if (signal.aborted) return undefined
    await sequence.evaluateWithoutGeneratingNewTokens(rest.slice(0, PART_TOKENS))
    tally.evaluated(PART_TOKENS)
    rest = rest.slice(PART_TOKENS)
  }
  if (signal.aborted) return undefined
  tally.evaluated(rest.length)
  return rest
}

/** Forgets what the sequence holds beyond the beginning of this prompt, and says how much is left. */
async function keepPrefix(sequence: PromptSequence, prompt: readonly Token[]): Promise<number> {
  const held = sequence.contextTokens
  // The last token has to be evaluated, for what comes after it.
  const shared = Math.min(commonPrefix(held, prompt), prompt.length - 1)
  if (shared === held.length) return shared
  // Models with a state that only goes forward can keep all of it or nothing.
  const kept = sequence.needsCheckpoints ? 0 : shared
  await sequence.eraseContextTokenRanges([{ start: kept, end: held.length }])
  return kept
}
