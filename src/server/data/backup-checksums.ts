/**
 * The checksums of a backup: a file in the format of `sha256sum` that names every other file. It needs no checksum of its
 * own: whatever changes in it is another digest, another name, or a line that cannot be read.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'

export const CHECKSUMS = 'SHA256SUMS'
const LINE = /^([0-9a-f]{64}) {2}([^\n\\]+)$/
/** How many damaged files the error names. */
const MAX_NAMED = 3

/** Digests by path, relative to the backup. */
export type Checksums = ReadonlyMap<string, string>

export class BackupError extends Error {}

export async function digestOf(file: string, onBytes: (bytes: number) => void = () => {}): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file, { highWaterMark: 1 << 20 }), async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) {
      hash.update(chunk)
      onBytes(chunk.length)
    }
  })
  return hash.digest('hex')
}

export async function writeChecksums(folder: string, checksums: Checksums): Promise<void> {
  const names = [...checksums.keys()].toSorted()
  const lines = names.map((name) => `${checksums.get(name)}  ${name}\n`)
  await writeFile(path.join(folder, CHECKSUMS), lines.join(''), { mode: 0o600, flush: true })
}

/** undefined: the backup was made by a version without checksums. */
export async function readChecksums(folder: string): Promise<Checksums | undefined> {
  const text = await readFile(path.join(folder, CHECKSUMS), 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  })
  if (text === undefined) return undefined
  const checksums = new Map<string, string>()
  const lines = text.split('\n')
  if (lines.pop() !== '') throw damaged(folder, [`the last line of ${CHECKSUMS} is cut off`])
  for (const [n, line] of lines.entries()) {
    const [, digest, name] = LINE.exec(line) ?? []
    if (digest === undefined || name === undefined || checksums.has(name))
      throw damaged(folder, [`line ${n + 1} of ${CHECKSUMS} cannot be read`])
    checksums.set(name, digest)
  }
  return checksums
}

/** Reads every file. Rejects with the names of those that are missing, were added or have changed. */
export async function verifyFiles(
  folder: string,
  checksums: Checksums,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const names = entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)))
    .filter((name) => name !== CHECKSUMS)
  const faults = [...checksums.keys()].filter((name) => !names.includes(name)).map((name) => `${name} is missing`)
  for (const name of names) {
    const expected = checksums.get(name)
    if (expected === undefined) faults.push(`${name} is not part of it`)
    else if ((await digestOf(path.join(folder, name), onBytes)) !== expected) faults.push(`${name} has changed`)
  }
  if (faults.length > 0) throw damaged(folder, faults)
}

function damaged(folder: string, faults: readonly string[]): BackupError {
  const more = faults.length > MAX_NAMED ? `, and ${faults.length - MAX_NAMED} more` : ''
  return new BackupError(
    `${folder} is damaged: ${faults.slice(0, MAX_NAMED).join(', ')}${more}. Nothing was restored. Use another backup, or another copy of this one.`,
  )
}
