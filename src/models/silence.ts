/** A time-out on silence: it ends what nobody has touched for too long, however long the whole takes. */

export interface SilenceWatch {
  /** Fires when the caller's signal does, or after the silence. */
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
