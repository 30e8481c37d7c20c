/** Runs the recorder of metrics: what hosts report is written once a second, and all of it when the server closes. */
import type { Logger } from 'pino'
import { SECOND_MS } from '../../base/instant.ts'
import type { MetricRecorder } from '../../app/rental/metric-recorder.ts'

/** Returns a function that writes the rest and stops. */
export function runRecorder(recorder: MetricRecorder, log: Logger): () => Promise<void> {
  const warn = (error: unknown): void => log.warn({ err: error }, 'could not write metrics; trying again')
  const timer = setInterval(() => void recorder.tick().catch(warn), SECOND_MS).unref()
  return async () => {
    clearInterval(timer)
    await recorder.close().catch((error: unknown) => log.warn({ err: error }, 'the last metrics were lost'))
  }
}
