/**
 * The program of the image `berth/engine`: one engine in one process, as an OpenAI-compatible server on a port.
 *
 *   engine.mjs --kind chat --name owner/model --model /models/model.gguf --port 8000
 */
import os from 'node:os'
import { readContainerOptions, type ContainerStart } from './options.ts'

const engines = {
  chat: () => import('../llama/main.ts'),
  embedding: () => import('../embedding/main.ts'),
  image: () => import('../image/main.ts'),
  speech: () => import('../speech/main.ts'),
} as const

const { kind, start } = readOptions()
// Engines read their start from their first argument.
process.argv = [process.argv[0] ?? '', process.argv[1] ?? '', JSON.stringify(start)]
await engines[kind]()

function readOptions(): ContainerStart {
  try {
    return readContainerOptions(process.argv.slice(2), process.env, os.availableParallelism())
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(2)
  }
}
