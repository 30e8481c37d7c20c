/** An idle timeout: aborts when `touch` is not called for too long, however long the whole takes. */

export interface SilenceWatch {
  /** Aborted with the caller's signal, or by the idle timeout. */
  readonly signal: AbortSignal
  readonly silenceMs: number
  touch(): void
  isSilent(): boolean
  close(): void
}

export function watchSilence(silenceMs: number, outer: AbortSignal): SilenceWatch {
  const controller = new AbortController()
  let isSilent = false
  const stop = (): void => controller.abort()
  const timer = setTimeout(() => {
    isSilent = true
    stop()
  }, silenceMs)
  if (outer.aborted) stop()
  outer.addEventListener('abort', stop, { once: true })
  return {
    signal: controller.signal,
    silenceMs,
    touch: () => void timer.refresh(),
    isSilent: () => isSilent,
    close: () => {
      clearTimeout(timer)
      outer.removeEventListener('abort', stop)
    },
  }
}
