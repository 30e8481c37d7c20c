/**
 * Generates one answer in one sequence. The model's output passes three stages: tokens become text, the text ends at
 * stop texts, and tool calls are extracted.
 */
import { LlamaGrammarEvaluationState, type LlamaContextSequence, type Token } from 'node-llama-cpp'
import { AnswerText, type TextPiece } from './answer-text.ts'
import type { Job } from './job.ts'
import type { LoadedModel } from './loaded-model.ts'
import { evaluatePrompt, type PromptTally } from './prompt-evaluation.ts'
import { samplingOptions } from './sampling.ts'
import { rateToken, type TokenLogprob } from './token-logprob.ts'
import { ToolCallReader, type ToolCall } from './tool-call.ts'

export interface AnswerPiece {
  readonly text: string
  readonly calls: readonly ToolCall[]
  readonly logprobs: readonly TokenLogprob[]
}

export type FinishReason = 'stop' | 'length' | 'tool_calls'

/** Called immediately, so that counters are always current. */
export interface Tally extends PromptTally {
  generated(): void
}

export interface Generation {
  readonly sequence: LlamaContextSequence
  readonly job: Job
  readonly prompt: readonly Token[]
  /** Counts from 0 over all answers of the request. */
  readonly choice: number
  readonly tally: Tally
  readonly signal: AbortSignal
}

/** Returns undefined if it is cancelled. */
export async function* generateAnswer(
  loaded: LoadedModel,
  generation: Generation,
): AsyncGenerator<AnswerPiece, FinishReason | undefined> {
  const { sequence, job } = generation
  const reader = job.calls && new ToolCallReader(job.calls.syntax, job.calls.tools)
  try {
    const { seed, temperature } = job.sampling
    const repeatable = seed !== undefined || temperature === 0
    const lastTokens = await evaluatePrompt(sequence, { ...generation, repeatable })
    if (lastTokens === undefined) return undefined
    const pieces = generatePieces(loaded, generation, lastTokens)
    for (;;) {
      const { value, done } = await pieces.next()
      if (done === true) {
        const last = reader?.end() ?? { text: '', calls: [] }
        if (value !== undefined && (last.text !== '' || last.calls.length > 0)) yield { ...last, logprobs: [] }
        return value === 'stop' && reader !== undefined && reader.count > 0 ? 'tool_calls' : value
      }
      const { text, tokens } = value
      const read = reader?.push(text) ?? { text, calls: [] }
      if (read.text !== '' || read.calls.length > 0 || tokens.length > 0) yield { ...read, logprobs: tokens }
    }
  } catch (error) {
    // The content of the sequence is unknown now.
    await sequence.clearHistory()
    throw error
  }
}

async function* generatePieces(
  { model, vocabulary, contextTokens }: LoadedModel,
  { sequence, job, prompt, choice, tally, signal }: Generation,
  lastTokens: Token[],
): AsyncGenerator<TextPiece<TokenLogprob>, 'stop' | 'length' | undefined> {
  const { sampling, alternatives } = job
  const generated: Token[] = []
  const grammar = job.grammar && new LlamaGrammarEvaluationState({ model, grammar: job.grammar })
  const options = samplingOptions(sampling, { model, prompt, generated, grammar, contextTokens, choice })
  const text = new AnswerText<TokenLogprob>(job.stops)
  const maxTokens = Math.min(job.maxTokens, contextTokens - prompt.length)
  const steps: AsyncIterable<GeneratedToken> = sequence.evaluateWithMetadata(
    lastTokens,
    { probabilities: alternatives !== undefined },
    options,
  )
  for await (const { token, probabilities } of steps) {
    if (signal.aborted) return undefined
    tally.generated()
    if (vocabulary.isEnd(token)) break
    generated.push(token)
    const rated =
      probabilities &&
      rateToken(
        { token, probabilities },
        { temperature: sampling.temperature, alternatives: alternatives ?? 0, offset: text.offset },
        vocabulary,
      )
    const piece = text.push(vocabulary.bytesOf(token, job.calls !== undefined), rated)
    if (piece.text !== '' || piece.tokens.length > 0) yield piece
    if (piece.stopped) return 'stop'
    if (generated.length >= maxTokens) {
      const last = text.end()
      yield last
      return last.stopped ? 'stop' : 'length'
    }
  }
  yield text.end()
  return 'stop'
}

interface GeneratedToken {
  readonly token: Token
  /** undefined: not requested. */
  readonly probabilities?: ReadonlyMap<Token, number>
}
