/**
 * An ONNX model in this process. A run blocks its thread and gives the event loop no turn of its own, so each run starts
 * with one: otherwise a long list of inputs keeps cancellations, health checks and other requests waiting.
 */
import { setImmediate } from 'node:timers/promises'
import type { InferenceSession } from 'onnxruntime-node'

const ERRORS_ONLY = 3

export interface OnnxModel {
  run(feeds: InferenceSession.FeedsType): Promise<InferenceSession.OnnxValueMapType>
}

/** The native library is loaded with the first model, so that importing an engine stays cheap. */
export async function openOnnxModel(file: string, options: InferenceSession.SessionOptions): Promise<OnnxModel> {
  const { InferenceSession } = await import('onnxruntime-node')
  const session = await InferenceSession.create(file, { ...options, logSeverityLevel: ERRORS_ONLY })
  return {
    run: async (feeds) => {
      await setImmediate()
      return session.run(feeds)
    },
  }
}
