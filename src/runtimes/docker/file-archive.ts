/**
 * The files of an order as a tar for the daemon, which unpacks it inside the root of a container that has not run yet.
 * There are no entries for folders: one would replace a link of the image, such as /var/run. A link at the path of a
 * file is replaced, not followed.
 */
import { pack } from 'tar-stream'
import type { Program } from '../../contract/agent.ts'
import { NeverStarts } from '../runtime.ts'

export async function fileArchive(files: Program['files']): Promise<Buffer> {
  const archive = pack()
  for (const { path, content, mode } of files) {
    // A fixed time: the same order makes the same archive.
    const entry = { name: nameOf(path), mode: Number.parseInt(mode, 8), uid: 0, gid: 0, mtime: new Date(0) }
    archive.entry(entry, content)
  }
  archive.finalize()
  const chunks: Buffer[] = []
  for await (const chunk of archive as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Relative to the root of the container. */
function nameOf(path: string): string {
  const parts = path.split('/').slice(1)
  const isBad = !path.startsWith('/') || path.includes('\0') || parts.some((part) => ['', '.', '..'].includes(part))
  if (isBad) throw new NeverStarts('bad_file_path', 'The path of a file is not a plain absolute path.')
  return parts.join('/')
}
