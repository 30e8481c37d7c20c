/** The transcription engine. Its model loads in about a second, before it listens. */
import os from 'node:os'
import { z } from 'zod'
import { limits } from '../../base/limits.ts'
import { engineStart, runEngine } from '../engine-http.ts'
import { loadMoonshine } from './moonshine.ts'
import { TranscriptionHandler } from './transcription.ts'

const start = engineStart.extend({
  /** The path of each file, by its name. */
  files: z.record(z.string(), z.string()),
})

await runEngine(start, async ({ files, threads, queue }) => {
  const recognizer = await loadMoonshine(files, threads ?? Math.max(1, os.availableParallelism() - 1))
  const handler = new TranscriptionHandler(recognizer, queue)
  return {
    contextTokens: null,
    supportsTools: false,
    queue: handler.queue,
    maxBodyBytes: limits.soundBytes,
    routes: { 'POST /v1/audio/transcriptions': (call) => handler.transcribe(call) },
  }
})
