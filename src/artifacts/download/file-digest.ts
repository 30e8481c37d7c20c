/** Reads files in large pieces, and computes their digests. */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'

const READ_BYTES = 1_048_576

export interface Digest {
  readonly algorithm: 'sha256' | 'sha384' | 'sha512'
  readonly hex: string
}

export function readChunks(path: string, signal?: AbortSignal): AsyncIterable<Buffer> {
  return createReadStream(path, { highWaterMark: READ_BYTES, ...(signal === undefined ? {} : { signal }) })
}

export async function hashFile(path: string, algorithm: Digest['algorithm'], signal: AbortSignal): Promise<string> {
  const hash = createHash(algorithm)
  for await (const chunk of readChunks(path, signal)) hash.update(chunk)
  return hash.digest('hex')
}
