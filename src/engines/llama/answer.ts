/**
 * The wire format of answers, for both operations. Streamed and plain answers consist of the same pieces: a chunk has
 * one of them, a plain answer all of them joined.
 */
import { randomBytes } from 'node:crypto'
import type { Instant } from '../../base/instant.ts'
import type { AnswerPiece, FinishReason } from './generation.ts'
import type { RatedToken, TokenLogprob } from './token-logprob.ts'

export interface Usage {
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly completionTokens: number
}

export interface Answer {
  readonly choice: number
  readonly piece: AnswerPiece
  readonly finish: FinishReason
}

export type AnswerKind = 'chat' | 'completion'

/** One answer in the format of its operation. */
export class AnswerWriter {
  readonly #kind: AnswerKind
  readonly #head: { readonly id: string; readonly created: number; readonly model: string }
  readonly #withLogprobs: boolean

  constructor(kind: AnswerKind, how: { readonly model: string; readonly at: Instant; readonly withLogprobs: boolean }) {
    this.#kind = kind
    this.#withLogprobs = how.withLogprobs
    const id = `${kind === 'chat' ? 'chatcmpl' : 'cmpl'}-${randomBytes(16).toString('hex')}`
    this.#head = { id, created: Math.floor(how.at / 1_000), model: how.model }
  }

  /** The first chunk of each choice; a completion has none. */
  opening(choice: number, usage: Usage | undefined): object | undefined {
    if (this.#kind === 'completion') return undefined
    return this.#chunk({ index: choice, delta: { role: 'assistant', content: '' }, finish_reason: null }, usage)
  }

  piece(choice: number, piece: AnswerPiece, usage: Usage | undefined): object {
    const logprobs = this.#logprobs(piece.logprobs)
    if (this.#kind === 'completion')
      return this.#chunk({ index: choice, text: piece.text, logprobs: logprobs ?? null, finish_reason: null }, usage)
    const delta = {
      ...(piece.text === '' && piece.calls.length > 0 ? {} : { content: piece.text }),
      ...(piece.calls.length === 0 ? {} : { tool_calls: piece.calls }),
    }
    return this.#chunk(
      { index: choice, delta, ...(logprobs === undefined ? {} : { logprobs }), finish_reason: null },
      usage,
    )
  }

  closing(choice: number, finish: FinishReason, usage: Usage | undefined): object {
    const emptyPart = this.#kind === 'chat' ? { delta: {} } : { text: '', logprobs: null }
    return this.#chunk({ index: choice, ...emptyPart, finish_reason: finish }, usage)
  }

  /** The last chunk, if the client requested it. */
  usage(usage: Usage): object {
    return { ...this.#head, object: this.#chunkName(), choices: [], usage: formatUsage(usage) }
  }

  whole(answers: readonly Answer[], usage: Usage): object {
    const name = this.#kind === 'chat' ? 'chat.completion' : 'text_completion'
    const choices = answers.map((answer) => (this.#kind === 'chat' ? this.#message(answer) : this.#text(answer)))
    return { ...this.#head, object: name, choices, usage: formatUsage(usage) }
  }

  #message({ choice, piece, finish }: Answer): object {
    const hasCalls = piece.calls.length > 0
    const message = {
      role: 'assistant',
      content: hasCalls && piece.text === '' ? null : piece.text,
      // Entries of a complete list need no index.
      ...(hasCalls
        ? { tool_calls: piece.calls.map(({ id, type, function: called }) => ({ id, type, function: called })) }
        : {}),
    }
    return { index: choice, message, logprobs: this.#logprobs(piece.logprobs) ?? null, finish_reason: finish }
  }

  #text({ choice, piece, finish }: Answer): object {
    return { index: choice, text: piece.text, logprobs: this.#logprobs(piece.logprobs) ?? null, finish_reason: finish }
  }

  #chunk(choice: object, usage: Usage | undefined): object {
    const counted = usage === undefined ? {} : { usage: formatUsage(usage) }
    return { ...this.#head, object: this.#chunkName(), choices: [choice], ...counted }
  }

  #chunkName(): string {
    return this.#kind === 'chat' ? 'chat.completion.chunk' : 'text_completion'
  }

  #logprobs(tokens: readonly TokenLogprob[]): object | undefined {
    if (!this.#withLogprobs) return undefined
    return this.#kind === 'chat' ? { content: tokens.map(formatForChat) } : formatForCompletion(tokens)
  }
}

export function joinPieces(pieces: readonly AnswerPiece[]): AnswerPiece {
  return {
    text: pieces.map(({ text }) => text).join(''),
    calls: pieces.flatMap(({ calls }) => calls),
    logprobs: pieces.flatMap(({ logprobs }) => logprobs),
  }
}

function formatUsage({ promptTokens, cachedTokens, completionTokens }: Usage): object {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  }
}

function formatForChat({ token, top }: TokenLogprob): object {
  const format = ({ text, logprob, bytes }: RatedToken): object => ({ token: text, logprob, bytes })
  return { ...format(token), top_logprobs: top.map(format) }
}

/** The older format: parallel lists, with alternatives keyed by text. They always include the token itself. */
function formatForCompletion(tokens: readonly TokenLogprob[]): object {
  return {
    tokens: tokens.map(({ token }) => token.text),
    token_logprobs: tokens.map(({ token }) => token.logprob),
    top_logprobs: tokens.map(({ token, top }) =>
      Object.fromEntries([...top, token].map(({ text, logprob }) => [text, logprob])),
    ),
    text_offset: tokens.map(({ offset }) => offset),
  }
}
