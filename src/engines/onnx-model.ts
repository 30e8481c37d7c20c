/**
 * An ONNX model in this process. A run blocks its thread and gives the event loop no turn of its own, so each run starts
 * with one: otherwise a long list of inputs keeps cancellations, health checks and other requests waiting.
 */
import { setImmediate } from 'node:timers/promises'
import type { InferenceSession } from 'onnxruntime-node'

const ERRORS_ONLY = 3

export interface OnnxModel {
  readonly inputNames: readonly string[]
  run(feeds: InferenceSession.FeedsType): Promise<InferenceSession.OnnxValueMapType>
}

/**
 * `model`: the path of its file, or its bytes. The native library is loaded with the first model, so that importing an
 * engine stays cheap.
 */
export async function openOnnxModel(
  model: string | Uint8Array,
  options: InferenceSession.SessionOptions,
): Promise<OnnxModel> {
  const { InferenceSession } = await import('onnxruntime-node')
  const settings = { ...options, logSeverityLevel: ERRORS_ONLY } as const
  const session = await (typeof model === 'string'
    ? InferenceSession.create(model, settings)
    : InferenceSession.create(model, settings))
  return {
    inputNames: session.inputNames,
    run: async (feeds) => {
      await setImmediate()
      return session.run(feeds)
    },
  }
}
