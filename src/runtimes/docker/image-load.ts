/** Gives the engine an image as an archive. */
import type { Readable } from 'node:stream'
import type { DockerClient } from './client.ts'
import { readJsonLines } from './json-lines.ts'
import { pullLine } from './reply.ts'

/** An archive as `docker save` writes it. */
export async function loadImage(
  client: DockerClient,
  archive: Readable,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<void> {
  const order = { query: { quiet: '1' }, archive, timeoutMs, signal }
  for await (const value of readJsonLines(await client.stream('POST', '/images/load', order))) {
    const { error } = pullLine.parse(value)
    if (error !== undefined) throw new Error(`the engine did not take the image: ${error}`)
  }
}
