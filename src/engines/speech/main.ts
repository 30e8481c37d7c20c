/**
 * The speech engine. The same file also runs in its synthesis thread. It is ready as soon as it listens; requests wait until
 * the voice has loaded.
 */
import os from 'node:os'
import { isMainThread, workerData } from 'node:worker_threads'
import { engineStart, failEngine, runEngine } from '../engine-http.ts'
import { SpeechHandler } from './speech.ts'
import { runVoiceThread, VoiceThread, type ThreadStart } from './voice-thread.ts'

/** A text of maximum length with every character escaped. */
const MAX_BODY_BYTES = 2 * 1_048_576

if (isMainThread) {
  await runEngine(engineStart, (start) => {
    const threads = start.threads ?? Math.max(1, os.availableParallelism() - 1)
    const handler = new SpeechHandler(new VoiceThread(threadEntry(), { threads }, failEngine), start.queue)
    return Promise.resolve({
      contextTokens: null,
      supportsTools: false,
      queue: handler.queue,
      maxBodyBytes: MAX_BODY_BYTES,
      routes: {
        'POST /v1/audio/generation': (call) => handler.generate(call),
        'GET /v1/voices': () => handler.listVoices(),
      },
    })
  })
} else {
  await runVoiceThread(workerData as ThreadStart)
}

/** A thread does not inherit the TypeScript loader: from the sources it is registered first; the bundle needs none. */
function threadEntry(): URL {
  if (!import.meta.url.endsWith('.ts')) return new URL(import.meta.url)
  const reader = JSON.stringify(import.meta.resolve('tsx/esm/api'))
  const code = `import { register } from ${reader}; register(); await import(${JSON.stringify(import.meta.url)})`
  return new URL(`data:text/javascript,${encodeURIComponent(code)}`)
}
