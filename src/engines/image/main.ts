/**
 * The image engine: a small process that is ready at once. The same file also runs as the painter, a child process that
 * the first request starts and that loads the weights.
 */
import os from 'node:os'
import { fileURLToPath } from 'node:url'
import { engineStart, runEngine } from '../engine-http.ts'
import { findModelFolder, readModelFolder } from './model-folder.ts'
import { PAINTER_ROLE, PainterProcess, readPainterStart, runPainter } from './painter-process.ts'
import { ImageHandler } from './image.ts'

/** Two prompts of maximum length with every character written as two escapes. */
const MAX_BODY_BYTES = 256 * 1_024

const thisFile = fileURLToPath(import.meta.url)

if (process.argv[2] === PAINTER_ROLE) {
  const start = readPainterStart(process.argv[3])
  // Imported here because it loads the model runtime and the image library.
  const { loadPictogram } = await import('./pictogram.ts')
  await runPainter(() => loadPictogram(start))
} else {
  await runEngine(engineStart, async (start) => {
    const folder = process.argv[3] ?? findModelFolder(thisFile)
    const facts = await readModelFolder(folder)
    const painter = new PainterProcess(thisFile, { folder, threads: start.threads ?? os.availableParallelism() })
    const handler = new ImageHandler(painter, facts, start.queue)
    return {
      contextTokens: null,
      supportsTools: false,
      queue: handler.queue,
      maxBodyBytes: MAX_BODY_BYTES,
      routes: { 'POST /v1/image/generation': (call) => handler.generate(call) },
    }
  })
}
