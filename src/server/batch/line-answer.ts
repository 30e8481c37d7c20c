/** One line of a batch as a request to the gateway, and its result as a line of a file. */
import { z } from 'zod'
import { fail, type Failure } from '../../contract/result.ts'
import { api } from '../../contract/api.ts'
import { batchOperations, type BatchPath } from '../../contract/batch-state.ts'
import type { Endpoint } from '../../contract/endpoint.ts'
import type { Caller, Reply } from '../../gateway/call.ts'
import type { Dialect } from '../../gateway/dialect/dialect.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import { failurePage, writePage } from '../http/error-page.ts'
import { works, type WorkOf } from '../inference/answer-inference.ts'

/** A parsed line. */
export interface BatchRequest {
  readonly customId: string
  readonly body: Readonly<Record<string, unknown>>
  readonly bodyBytes: number
}

export type LineAnswer = { readonly ok: true; readonly body: unknown } | Failure

/** The line was valid when the batch was; the schema has no defaults that an engine would need. */
export async function answerLine(
  gateway: Gateway,
  caller: Caller,
  path: BatchPath,
  request: BatchRequest,
  requestId: string,
): Promise<LineAnswer> {
  const operation = batchOperations[path]
  const work = works[operation] as Dialect | WorkOf<unknown>
  const headers = { requestId, traceparent: undefined, session: undefined }
  if (typeof work !== 'function') {
    const reply = new LineReply()
    const client = { dialect: work, body: request.body, bodyBytes: request.bodyBytes, nameIgnored: () => {} }
    return (await gateway.chat(caller, client, headers, reply)) ?? reply.answer
  }
  const endpoint: Endpoint = api[operation]
  const parsed = (endpoint.body ?? z.unknown()).safeParse(request.body)
  if (!parsed.success) return fail('bad_request')
  const media = work(parsed.data, new Set(Object.keys(request.body)), Buffer.alloc(0))
  if (!media.ok) return media
  await gateway.whenStarted(media.value.modelName, media.value.kind)
  const signal = new AbortController().signal
  const answer = await gateway.media.run(gateway.catalog, caller, media.value, headers, { signal })
  return answer.ok ? { ok: true, body: answer.value } : answer
}

/** Takes the answer in one piece: lines are never streamed. */
class LineReply implements Reply {
  readonly answer: Promise<LineAnswer>
  #resolve: (answer: LineAnswer) => void = () => {}

  constructor() {
    this.answer = new Promise((resolve) => (this.#resolve = resolve))
  }

  send(_status: number, _contentType: string, body: string): void {
    this.#resolve({ ok: true, body: JSON.parse(Buffer.from(body, 'latin1').toString('utf8')) as unknown })
  }

  refuse(failure: Failure): void {
    this.#resolve(failure)
  }

  abort(): void {
    this.#resolve(fail('internal_error'))
  }

  startStream(): boolean {
    return this.write()
  }

  write(): boolean {
    throw new Error('a line of a batch is not streamed')
  }

  endStream(): void {
    this.write()
  }

  onGone(): void {}

  onDrain(): void {}
}

export interface LineIds {
  readonly batchId: string
  readonly line: number
  readonly customId: string
  readonly requestId: string
}

/** A line of a file of results. */
export function resultText(ids: LineIds, path: BatchPath, answer: LineAnswer): string {
  const response = answer.ok
    ? { status_code: 200, request_id: ids.requestId, body: answer.body }
    : refusalOf(path, answer, ids.requestId)
  return lineText(ids, response, null)
}

function refusalOf(path: BatchPath, failure: Failure, requestId: string) {
  const page = failurePage(api[batchOperations[path]], failure)
  return { status_code: page.status, request_id: requestId, body: JSON.parse(writePage(page, requestId)) as unknown }
}

/** A line that was not run. */
export function unansweredText(ids: LineIds, error: { readonly code: string; readonly message: string }): string {
  return lineText(ids, null, error)
}

function lineText({ batchId, line, customId }: LineIds, response: unknown, error: unknown): string {
  return `${JSON.stringify({ id: `${batchId}_${line}`, custom_id: customId, response, error })}\n`
}
