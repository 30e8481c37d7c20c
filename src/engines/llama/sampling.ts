/**
 * Sampling parameters translated for the library.
 *
 * By convention frequency and presence penalties count generated tokens only, and the repetition penalty also the
 * prompt. The library has one list for all three, so the first two are applied as biases, set anew for each token.
 */
import { randomInt } from 'node:crypto'
import {
  TokenBias,
  type LlamaModel,
  type LlamaGrammarEvaluationState,
  type SequenceEvaluateOptions,
  type Token,
} from 'node-llama-cpp'

export interface Sampling {
  /** 0: always the most likely token. */
  readonly temperature: number
  readonly topP: number
  /** 0: no limit. */
  readonly topK: number
  readonly minP: number
  /** undefined: a random seed. */
  readonly seed: number | undefined
  readonly frequencyPenalty: number
  readonly presencePenalty: number
  readonly repetitionPenalty: number
  /** Biases by token; -100 means never. */
  readonly logitBias: ReadonlyMap<number, number>
}

export interface SamplingState {
  readonly model: LlamaModel
  readonly prompt: readonly Token[]
  /** The list grows with the answer. */
  readonly generated: readonly Token[]
  readonly grammar: LlamaGrammarEvaluationState | undefined
  readonly contextTokens: number
  /** Each choice has its own seed. */
  readonly choice: number
}

export function samplingOptions(sampling: Sampling, state: SamplingState): SequenceEvaluateOptions {
  const { temperature, topP, topK, minP, repetitionPenalty } = sampling
  const { prompt, generated, grammar } = state
  const hasBias = sampling.logitBias.size > 0 || sampling.frequencyPenalty !== 0 || sampling.presencePenalty !== 0
  return {
    temperature,
    topP,
    topK,
    minP,
    seed: seedOf(sampling.seed, state.choice),
    yieldEogToken: true,
    ...(grammar === undefined ? {} : { grammarEvaluationState: grammar }),
    ...(hasBias ? { tokenBias: () => biasNow(sampling, state) } : {}),
    ...(repetitionPenalty === 1
      ? {}
      : {
          repeatPenalty: {
            punishTokens: () => [...prompt, ...generated],
            maxPunishTokens: state.contextTokens,
            penalty: repetitionPenalty,
          },
        }),
  }
}

/** The last 32-bit number means a random seed to llama.cpp, so it is excluded. */
const SEEDS = 2 ** 32 - 1

function seedOf(seed: number | undefined, choice: number): number {
  if (seed === undefined) return randomInt(SEEDS)
  return (((seed + choice) % SEEDS) + SEEDS) % SEEDS
}

function biasNow({ logitBias, frequencyPenalty, presencePenalty }: Sampling, state: SamplingState): TokenBias {
  const biases = new Map(logitBias)
  if (frequencyPenalty !== 0 || presencePenalty !== 0) {
    const counts = new Map<number, number>()
    for (const token of state.generated) counts.set(token, (counts.get(token) ?? 0) + 1)
    for (const [token, count] of counts)
      biases.set(token, (biases.get(token) ?? 0) - presencePenalty - count * frequencyPenalty)
  }
  const bias = TokenBias.for(state.model)
  const all = biasesOf(bias)
  // Under a grammar the banned token, often the end, may be the only one left. A model with no token to choose crashes
  // the engine, so with a grammar the bias is applied as given, without turning it into a ban.
  const never = state.grammar === undefined ? -Infinity : NEVER
  for (const [token, value] of biases) all.set(token, logitBias.get(token) === NEVER ? never : value)
  return bias
}

const NEVER = -100

/**
 * The library's public method ignores tokens that end an answer, but clients may ban or force these too. Its version is
 * pinned, and a test covers this.
 */
function biasesOf(bias: TokenBias): Map<number, number> {
  const biases: unknown = Reflect.get(bias, '_biases')
  if (!(biases instanceof Map)) throw new TypeError('this version of node-llama-cpp keeps its biases elsewhere')
  return biases as Map<number, number>
}
