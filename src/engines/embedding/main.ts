/** The embedding engine. Its model loads in 0.2 s, before it listens. */
import os from 'node:os'
import { engineStart, runEngine } from '../engine-http.ts'
import { EmbeddingHandler } from './embedding.ts'
import { loadMiniLm, MAX_TOKENS } from './mini-lm.ts'

/** The longest list of the longest English texts is about 5 MB. */
const MAX_BODY_BYTES = 8 * 1_048_576

await runEngine(engineStart, async (start) => {
  const model = await loadMiniLm(start.threads ?? Math.max(1, os.availableParallelism() - 1))
  const handler = new EmbeddingHandler(model, start.model, start.queue)
  return {
    contextTokens: MAX_TOKENS,
    supportsTools: false,
    queue: handler.queue,
    maxBodyBytes: MAX_BODY_BYTES,
    routes: { 'POST /v1/embeddings': (call) => handler.embed(call) },
  }
})
