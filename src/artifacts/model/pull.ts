/**
 * Updates a model's folder to its list of files: keeps unchanged files, downloads missing ones, deletes those no longer
 * listed. If all sizes are known, disk space is reserved before the first byte.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import { formatInstant, type Clock } from '../../base/instant.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import type { ModelFile } from '../../contract/model.ts'
import { addOrNull, assemble, checkFile, sourcesOf, type WantedFile } from './assemble.ts'
import { measure, unlessGone, type DiskBudget } from '../download/disk-budget.ts'
import type { ModelLog } from '../log.ts'
import { folderOf, readManifest, writeManifest, type Manifest, type ModelFolder, type StoredFile } from './manifest.ts'
import type { Piece, PieceRequest } from './piece.ts'
import { makeProgress } from './progress.ts'
import { findSourceFile } from './source-file.ts'

export interface Pulled {
  /** Paths by file name. */
  readonly paths: ReadonlyMap<string, string>
}

export interface PullOptions {
  readonly dir: string
  readonly model: string
  readonly files: readonly WantedFile[]
  readonly budget: DiskBudget
  readonly fetchPiece: (request: PieceRequest) => Promise<Result<Piece>>
  readonly signal: AbortSignal
  readonly onProgress: (doneBytes: number, totalBytes: number | null) => void
  readonly clock: Clock
  readonly log: ModelLog
}

/** Entries with the same name are joined into one file, in order. `bytes` is per entry, the digest is of the whole. */
export function readWantedFiles(files: readonly ModelFile[]): Result<WantedFile[]> {
  const names = [...new Set(files.map(({ file }) => file))]
  const wantedFiles: WantedFile[] = []
  for (const file of names) {
    const entries = files.filter((one) => one.file === file)
    const digests = [...new Set(entries.flatMap(({ sha256 }) => sha256 ?? []))]
    if (digests.length > 1) return fail('bad_source', { message: `${file} has two different digests.` })
    const pieces = entries.map(({ source, bytes }) => ({ source, bytes, downloadName: digestOf(source) }))
    const bytes = pieces.reduce<number | null>((sum, one) => addOrNull(sum, one.bytes), 0)
    wantedFiles.push({ file, pieces, bytes, sha256: digests[0] ?? null })
  }
  return wantedFiles.length === 0 ? fail('bad_source', { message: 'The model has no files.' }) : ok(wantedFiles)
}

export async function pullModel(options: PullOptions): Promise<Result<Pulled>> {
  const { model } = options
  const folder = folderOf(options.dir, model)
  await fs.mkdir(folder.partsPath, { recursive: true, mode: 0o700 })
  const previous = await readManifest(folder)
  // On a case-insensitive file system two names may share a folder.
  if (previous !== undefined && previous.model !== model) {
    return fail('folder_in_use', { model, owner: previous.model })
  }
  let manifest: Manifest = previous ?? { model, pulledAt: null, files: [] }
  if (previous === undefined) await writeManifest(folder, manifest)
  await dropOldParts(folder, options.files)

  const storedFiles = new Map<string, StoredFile>()
  const missing: WantedFile[] = []
  for (const configured of options.files) {
    const wantedFile = pin(configured, manifest)
    const stored = await findStored(wantedFile, manifest, folder, options)
    if (!stored.ok) return stored
    if (stored.value === undefined) missing.push(wantedFile)
    else storedFiles.set(configured.file, stored.value)
  }
  const failure = await downloadMissing(missing, folder, options, async (stored) => {
    storedFiles.set(stored.file, stored)
    manifest = { ...manifest, files: [...manifest.files.filter(({ file }) => file !== stored.file), stored] }
    await writeManifest(folder, manifest)
  })
  if (failure !== undefined) return failure
  await settle(folder, manifest, [...storedFiles.values()], missing.length > 0, options)
  return ok({ paths: new Map(options.files.map(({ file }) => [file, storedFiles.get(file)?.path ?? ''])) })
}

/** A file without a configured digest is pinned to its first download, as long as its sources stay the same. */
function pin(wantedFile: WantedFile, manifest: Manifest): WantedFile {
  const stored = manifest.files.find(({ file }) => file === wantedFile.file)
  if (wantedFile.sha256 !== null || stored === undefined || !hasSources(stored, wantedFile)) return wantedFile
  return { ...wantedFile, sha256: stored.sha256 }
}

/** undefined: the file must be downloaded. */
async function findStored(
  wantedFile: WantedFile,
  manifest: Manifest,
  folder: ModelFolder,
  options: PullOptions,
): Promise<Result<StoredFile | undefined>> {
  const inPlace = isInPlace(wantedFile) ? await findSourceFile(wantedFile.pieces[0]?.source ?? '') : undefined
  if (inPlace !== undefined && !inPlace.ok) return inPlace
  const place = inPlace?.value.path ?? path.join(folder.path, wantedFile.file)
  const stat = await fs.stat(place).catch(unlessGone(undefined))
  if (stat === undefined) return ok(undefined)
  const stored = manifest.files.find(({ file, path: at }) => file === wantedFile.file && at === place)
  const isUnchanged = stored?.bytes === stat.size && stored.modifiedMs === stat.mtimeMs
  if (stored !== undefined && isUnchanged && isCurrent(stored, wantedFile)) return ok(stored)
  // Without a digest to compare with, the file in the store could be anything.
  if (inPlace === undefined && wantedFile.sha256 === null) return ok(undefined)
  const checked = await checkFile(wantedFile, place, options.signal)
  if (checked.ok) return ok({ file: wantedFile.file, sources: sourcesOf(wantedFile), path: place, ...checked.value })
  if (inPlace !== undefined) return checked
  if (stored !== undefined && !isUnchanged) {
    options.log.warn(
      { model: options.model, file: wantedFile.file },
      'a file in the model store was changed; downloading it again',
    )
  }
  return ok(undefined)
}

function isCurrent(stored: StoredFile, wantedFile: WantedFile): boolean {
  if (wantedFile.bytes !== null && wantedFile.bytes !== stored.bytes) return false
  return wantedFile.sha256 === null ? hasSources(stored, wantedFile) : wantedFile.sha256 === stored.sha256
}

/** undefined: success. */
async function downloadMissing(
  missing: readonly WantedFile[],
  folder: ModelFolder,
  options: PullOptions,
  onStored: (stored: StoredFile) => Promise<void>,
): Promise<Failure | undefined> {
  const room = options.budget.open()
  try {
    const failure = await room.need(Math.max(neededBytes(missing) - (await measure(folder.partsPath)), 0))
    if (failure !== undefined) return failure
    const progress = makeProgress(missing, options.onProgress)
    for (const wantedFile of missing) {
      const stored = await assemble(wantedFile, {
        ...options,
        folder,
        room,
        onBytes: (piece, done, total) => progress(wantedFile.file, piece, done, total),
      })
      if (!stored.ok) return stored
      await onStored(stored.value)
    }
    return undefined
  } finally {
    room.close()
  }
}

/** Adds the known sizes of all files, plus the largest piece, which exists twice while it is unpacked or appended. */
function neededBytes(missing: readonly WantedFile[]): number {
  const all = missing.reduce((sum, { pieces }) => sum + pieces.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0), 0)
  const twice = missing.flatMap(({ pieces }) =>
    pieces.filter(({ source }) => source.startsWith('npm:') || pieces.length > 1).map(({ bytes }) => bytes ?? 0),
  )
  return all + Math.max(0, ...twice)
}

async function settle(
  folder: ModelFolder,
  manifest: Manifest,
  files: readonly StoredFile[],
  isNew: boolean,
  options: PullOptions,
): Promise<void> {
  for (const { file, path: place } of manifest.files) {
    const isOwn = place === path.join(folder.path, file)
    if (isOwn && !files.some((one) => one.path === place)) await fs.rm(place, { force: true })
  }
  await fs.rm(folder.partsPath, { recursive: true, force: true })
  const pulledAt = isNew || manifest.pulledAt === null ? formatInstant(options.clock.now()) : manifest.pulledAt
  const next: Manifest = { model: options.model, pulledAt, files: [...files] }
  if (JSON.stringify(next) !== JSON.stringify(manifest)) await writeManifest(folder, next)
}

/** Deletes parts of sources that are no longer listed. */
async function dropOldParts(folder: ModelFolder, files: readonly WantedFile[]): Promise<void> {
  const partNames = files.flatMap(({ file, pieces }) => [
    `${file}.joined`,
    ...pieces.map(({ downloadName }) => downloadName),
  ])
  for (const name of await fs.readdir(folder.partsPath)) {
    if (!partNames.some((one) => name === one || name.startsWith(`${one}.`)))
      await fs.rm(path.join(folder.partsPath, name), { recursive: true, force: true })
  }
}

function isInPlace(wantedFile: WantedFile): boolean {
  return wantedFile.pieces.length === 1 && wantedFile.pieces[0]?.source.startsWith('file:') === true
}

function hasSources(stored: StoredFile, wantedFile: WantedFile): boolean {
  return JSON.stringify(stored.sources) === JSON.stringify(sourcesOf(wantedFile))
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}
