/**
 * Reads one file out of a tar stream without holding the archive in memory. The archive is untrusted: nothing in it
 * chooses a path on our disk, links are refused, and the number of entries is limited. `tar-stream` verifies header
 * checksums and limits the size of extended headers.
 */
import type { Readable } from 'node:stream'
import { extract } from 'tar-stream'

const MAX_ENTRIES = 100_000

export class TarError extends Error {}

/**
 * Yields the content of the first entry whose name `isWanted`. Throws a TarError when there is none or the archive is
 * bad.
 */
export async function* readTarFile(archive: Readable, isWanted: (name: string) => boolean): AsyncGenerator<Buffer> {
  const entries = extract()
  let sourceError: unknown
  archive.once('error', (error) => {
    sourceError = error
    entries.destroy(error)
  })
  archive.pipe(entries)
  let count = 0
  try {
    for await (const entry of entries) {
      count += 1
      if (count > MAX_ENTRIES) throw new TarError(`The archive has more than ${MAX_ENTRIES} entries`)
      const { name, type } = entry.header
      if (!isWanted(name)) {
        entry.resume()
        continue
      }
      if (type !== 'file' && type !== 'contiguous-file') {
        throw new TarError(`${name} in the archive is not a regular file`)
      }
      yield* entry as AsyncIterable<Buffer>
      return
    }
  } catch (error) {
    if (error instanceof TarError || error === sourceError) throw error
    throw new TarError(`The archive is damaged: ${error instanceof Error ? error.message : String(error)}`)
  }
  throw new TarError('The archive has no such file')
}
