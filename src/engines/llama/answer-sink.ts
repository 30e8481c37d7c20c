/** Writes the pieces of an answer to a stream as they come, or collects them into one body. */
import type http from 'node:http'
import { formatSse } from '../../base/net/sse.ts'
import { joinPieces, type Answer, type AnswerWriter, type Usage } from './answer.ts'
import type { RequestUsage } from './engine.ts'
import type { AnswerPiece } from './generation.ts'
import type { GenerationRequest } from './request.ts'

/** A client that reads nothing for this long is disconnected. */
const STALLED_MS = 120_000

export interface Sink {
  piece(choice: number, piece: AnswerPiece): Promise<void>
  finish(choice: number, reason: Answer['finish']): Promise<void>
  /** Resolves with the body, unless it was streamed. */
  end(): Promise<object | undefined>
}

export class PlainSink implements Sink {
  readonly #writer: AnswerWriter
  readonly #usage: RequestUsage
  readonly #answers: Answer[] = []
  #pieces: AnswerPiece[] = []

  constructor(writer: AnswerWriter, usage: RequestUsage) {
    this.#writer = writer
    this.#usage = usage
  }

  async piece(_choice: number, piece: AnswerPiece): Promise<void> {
    this.#pieces.push(piece)
  }

  async finish(choice: number, finish: Answer['finish']): Promise<void> {
    this.#answers.push({ choice, finish, piece: joinPieces(this.#pieces) })
    this.#pieces = []
  }

  async end(): Promise<object> {
    return this.#writer.whole(this.#answers, this.#usage.now)
  }
}

export class StreamSink implements Sink {
  readonly #response: http.ServerResponse
  readonly #writer: AnswerWriter
  readonly #usage: RequestUsage
  readonly #withUsage: GenerationRequest['usage']
  #opened = -1

  constructor(
    response: http.ServerResponse,
    writer: AnswerWriter,
    how: { readonly usage: RequestUsage; readonly withUsage: GenerationRequest['usage'] },
  ) {
    this.#response = response
    this.#writer = writer
    this.#usage = how.usage
    this.#withUsage = how.withUsage
  }

  async piece(choice: number, piece: AnswerPiece): Promise<void> {
    await this.#open(choice)
    await this.#send(this.#writer.piece(choice, piece, this.#usageNow()))
  }

  async finish(choice: number, finish: Answer['finish']): Promise<void> {
    await this.#open(choice)
    await this.#send(this.#writer.closing(choice, finish, this.#usageNow()))
  }

  async end(): Promise<undefined> {
    if (this.#withUsage !== 'none') await this.#send(this.#writer.usage(this.#usage.now))
    this.#response.end(formatSse({ data: '[DONE]' }))
  }

  async #open(choice: number): Promise<void> {
    if (this.#opened === choice) return
    this.#opened = choice
    if (!this.#response.headersSent)
      this.#response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
    const opening = this.#writer.opening(choice, this.#usageNow())
    if (opening !== undefined) await this.#send(opening)
  }

  #usageNow(): Usage | undefined {
    return this.#withUsage === 'always' ? this.#usage.now : undefined
  }

  /** Waits if the client reads more slowly than the model writes. */
  async #send(chunk: object): Promise<void> {
    const response = this.#response
    if (response.write(formatSse({ data: JSON.stringify(chunk) })) || response.closed) return
    await new Promise<void>((resolve) => {
      const stalled = setTimeout(() => response.destroy(), STALLED_MS)
      const resume = (): void => {
        clearTimeout(stalled)
        response.off('drain', resume).off('close', resume)
        resolve()
      }
      response.once('drain', resume).once('close', resume)
    })
  }
}
