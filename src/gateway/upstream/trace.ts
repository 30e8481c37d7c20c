/** Request headers passed to the engine, and the trace context (W3C `traceparent`). */

export interface CallHeaders {
  readonly requestId: string
  readonly traceparent: string | undefined
  /** Requests with the same session go to the same engine if possible. */
  readonly session: string | undefined
}

/** Continues the caller's trace; otherwise starts one named after the request. */
export function traceIdOf(headers: CallHeaders): string {
  const [, traceId] = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/.exec(headers.traceparent ?? '') ?? []
  return traceId ?? headers.requestId.slice(4)
}

/** Header lines that make the engine's work a child of this request. */
export function tracingOf(call: { readonly traceId: string; readonly requestId: string }): string {
  return `traceparent: 00-${call.traceId}-${call.requestId.slice(20)}-01\r\nx-request-id: ${call.requestId}\r\n`
}
