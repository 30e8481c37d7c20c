/**
 * The manifest of a model's folder. A file counts as present when the manifest has its digest and the disk shows the
 * same size and modification time: hashing gigabytes at each start would take longer than loading them. The manifest
 * also pins files without a configured digest.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { unlessGone } from '../download/disk-budget.ts'
import { syncFolder } from '../download/downloader.ts'

/** Model files never begin with a dot. */
const MANIFEST_NAME = '.manifest.json'
/** Unfinished downloads. */
const PARTS_NAME = '.parts'
/** File systems limit names to 255 bytes. */
const FOLDER_BYTES = 200

const storedFile = z.object({
  file: z.string(),
  sources: z.array(z.string()),
  /** A file used in place is outside of the store. */
  path: z.string(),
  bytes: z.int(),
  sha256: z.string(),
  modifiedMs: z.number(),
})
export type StoredFile = z.infer<typeof storedFile>

const manifest = z.object({ model: z.string(), pulledAt: z.string().nullable(), files: z.array(storedFile) })
export type Manifest = z.infer<typeof manifest>

export interface ModelFolder {
  readonly path: string
  readonly partsPath: string
}

/** Encodes slashes and colons of a model name, so that no two names share a folder. */
export function folderOf(dir: string, model: string): ModelFolder {
  const plain = encodeURIComponent(model)
  const digest = createHash('sha256').update(model).digest('hex').slice(0, 16)
  const name = plain.length <= FOLDER_BYTES ? plain : `${plain.slice(0, FOLDER_BYTES - 17)}-${digest}`
  return folderAt(path.join(dir, name))
}

export function folderAt(place: string): ModelFolder {
  return { path: place, partsPath: path.join(place, PARTS_NAME) }
}

/** undefined: missing or unreadable. */
export async function readManifest(folder: ModelFolder): Promise<Manifest | undefined> {
  const text = await fs.readFile(path.join(folder.path, MANIFEST_NAME), 'utf8').catch(unlessGone(''))
  try {
    return manifest.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

export async function writeManifest(folder: ModelFolder, next: Manifest): Promise<void> {
  const place = path.join(folder.path, MANIFEST_NAME)
  const temporary = `${place}.new`
  const handle = await fs.open(temporary, 'w', 0o600)
  try {
    await handle.writeFile(`${JSON.stringify(next, null, 2)}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await fs.rename(temporary, place)
  await syncFolder(folder.path)
}
