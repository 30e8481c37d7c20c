/** A call whose answer is needed whole: for everything but chats. */
import type { Dispatcher, UpstreamCall, UpstreamFailure, UpstreamHead } from './upstream-call.ts'

export interface Collected {
  readonly head: UpstreamHead
  readonly body: Buffer
  readonly firstByteMs: number
}

export type CollectFailure = UpstreamFailure | { readonly kind: 'gone' }

/** `signal` aborts when the client has gone. */
export function collect(
  dispatcher: Dispatcher,
  call: UpstreamCall,
  options: { mostBytes: number; signal: AbortSignal },
): Promise<{ ok: true; value: Collected } | { ok: false; failure: CollectFailure }> {
  return new Promise((resolve) => {
    const startedAt = performance.now()
    const chunks: Buffer[] = []
    let bytes = 0
    let head: UpstreamHead | undefined
    let firstByteMs = 0
    const settle = (outcome: { ok: true; value: Collected } | { ok: false; failure: CollectFailure }): void => {
      options.signal.removeEventListener('abort', gone)
      resolve(outcome)
    }
    const breakOff = (detail: string): void => {
      handle.cancel()
      const failure = { kind: 'broken' as const, detail, deployment: head?.deployment, retryAfterMs: undefined }
      settle({ ok: false, failure })
    }
    const gone = (): void => {
      handle.cancel()
      settle({ ok: false, failure: { kind: 'gone' } })
    }
    options.signal.addEventListener('abort', gone, { once: true })
    const handle = dispatcher.send(call, {
      head: (answered) => {
        head = answered
        firstByteMs = Math.round(performance.now() - startedAt)
      },
      data: (piece) => {
        bytes += piece.length
        if (bytes > options.mostBytes) return breakOff('the answer of the engine is too long')
        chunks.push(Buffer.from(piece))
      },
      end: () => {
        if (head === undefined) return breakOff('the engine ended without an answer')
        settle({ ok: true, value: { head, body: Buffer.concat(chunks), firstByteMs } })
      },
      fail: (failure) => settle({ ok: false, failure }),
    })
    if (options.signal.aborted) gone()
  })
}
