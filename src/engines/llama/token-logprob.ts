/** Log-probabilities for clients: after grammar, biases, penalties, top_k, top_p and min_p, before the temperature. */
import type { Token } from 'node-llama-cpp'
import type { Vocabulary } from './vocabulary.ts'

export interface TokenLogprob {
  /** The position at which its text begins, in UTF-16 units. */
  readonly offset: number
  readonly token: RatedToken
  /** The requested number of likeliest tokens. */
  readonly top: readonly RatedToken[]
}

export interface RatedToken {
  readonly text: string
  readonly logprob: number
  readonly bytes: readonly number[]
}

/** JSON has no minus infinity. */
const MIN_LOGPROB = -9_999

export interface RatedStep {
  readonly token: Token
  /** The probabilities after the temperature, most likely first. */
  readonly probabilities: ReadonlyMap<Token, number>
}

export function rateToken(
  step: RatedStep,
  how: { readonly temperature: number; readonly alternatives: number; readonly offset: number },
  vocabulary: Vocabulary,
): TokenLogprob {
  // At temperature 0, the most likely token is taken and probabilities are unchanged.
  const heat = how.temperature === 0 ? 1 : how.temperature
  const sum = heat === 1 ? 1 : [...step.probabilities.values()].reduce((all, one) => all + one ** heat, 0)
  const rate = (token: Token): RatedToken => {
    const logprob = heat * Math.log(step.probabilities.get(token) ?? 0) - Math.log(sum)
    const bytes = vocabulary.bytesOf(token, true)
    return { text: showBytes(bytes), logprob: Math.max(Math.min(logprob, 0), MIN_LOGPROB), bytes: [...bytes] }
  }
  const top: RatedToken[] = []
  for (const token of step.probabilities.keys()) {
    if (top.length === how.alternatives) break
    top.push(rate(token))
  }
  return { offset: how.offset, token: rate(step.token), top }
}

/** Bytes of a partial character are not text, so they are shown as numbers. */
function showBytes(bytes: Buffer): string {
  const text = bytes.toString()
  if (Buffer.from(text).equals(bytes)) return text
  return `bytes:${[...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`
}
