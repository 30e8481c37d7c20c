/**
 * A signal with a time limit. `AbortSignal.any([signal, AbortSignal.timeout(ms)])` has none on Node 20: nothing refers to
 * the signal of the timeout, so it is collected as garbage and never fires. Here the timer holds it.
 */
export function signalWithin(signal: AbortSignal, ms: number): AbortSignal {
  const limit = new AbortController()
  const expire = (): void => limit.abort(new DOMException(`No result within ${ms} ms.`, 'TimeoutError'))
  // Like the timer of AbortSignal.timeout, it does not keep the process alive.
  setTimeout(expire, ms).unref()
  return AbortSignal.any([signal, limit.signal])
}
