/**
 * The chat engine: loads one GGUF file and serves it over a unix socket.
 *
 *   node llama-engine.mjs '{"model":"name","file":"/models/x.gguf","socketPath":"/run/x.sock","contextTokens":null,…}'
 */
import path from 'node:path'
import { z } from 'zod'
import { systemClock } from '../../base/instant.ts'
import { engineStart, failEngine, runEngine } from '../engine-http.ts'
import { complete, countTokens } from './completion.ts'
import { ChatEngine } from './engine.ts'
import { loadModel } from './loaded-model.ts'

const MAX_BODY_BYTES = 4 * 1_048_576

const llamaStart = engineStart.extend({
  file: z.string().min(1),
  contextTokens: z.int().min(1).nullable(),
  sequences: z.int().min(1).max(256),
})

// When sampling fails the library throws outside of any request and leaves the request hanging: the parent restarts us.
process.on('uncaughtException', failEngine)

await runEngine(llamaStart, async (start, onProgress) => {
  const loaded = await loadModel(start, { progress: onProgress, log }).catch((error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error)
    throw new Error(`${path.basename(start.file)} cannot be loaded: ${reason}`, { cause: error })
  })
  const engine = new ChatEngine(start.model, loaded, start.queue)
  return {
    contextTokens: loaded.contextTokens,
    // Tools are supported by the model's template, otherwise by a grammar.
    supportsTools: true,
    queue: engine,
    maxBodyBytes: MAX_BODY_BYTES,
    routes: {
      'POST /v1/chat/completions': (call) => complete(engine, 'chat', call, systemClock),
      'POST /tokenize': (call) => countTokens(engine, call.body),
      'POST /v1/completions': (call) => complete(engine, 'completion', call, systemClock),
    },
  }
})

function log(line: string): void {
  process.stderr.write(`${line.trim().replaceAll(/\s*\n\s*/g, ' | ')}\n`)
}
