/** The headers of a request that travel with it, and the trace it belongs to (W3C `traceparent`). */

export interface CallHeaders {
  readonly requestId: string
  readonly traceparent: string | undefined
  /** Requests with the same hint go to the same engine where they can. */
  readonly session: string | undefined
}

/** The trace of the caller goes on; a request without one begins its own, named after its id. */
export function traceIdOf(headers: CallHeaders): string {
  const [, traceId] = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/.exec(headers.traceparent ?? '') ?? []
  return traceId ?? headers.requestId.slice(4)
}

/** Lines for the engine, which then stands in the trace as a child of this request. */
export function tracingOf(call: { readonly traceId: string; readonly requestId: string }): string {
  return `traceparent: 00-${call.traceId}-${call.requestId.slice(4, 20)}-01\r\nx-request-id: ${call.requestId}\r\n`
}
