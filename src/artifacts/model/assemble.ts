/**
 * Builds one model file from its sources: downloads and appends each piece, checks the whole, and only then gives the
 * file its name. Progress is recorded after each piece, so a crash costs at most the current one. A file that fails the
 * check is deleted.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { unlessGone, type Room } from '../download/disk-budget.ts'
import { syncFolder } from '../download/downloader.ts'
import { hashFile } from '../download/file-digest.ts'
import type { ModelFolder, StoredFile } from './manifest.ts'
import { writeAt } from '../download/part-file.ts'
import { PieceError, type Piece, type PieceRequest } from './piece.ts'

/** A resumed download may be corrupt on our side, so it is repeated once. */
const MAX_TRIES = 2

export interface WantedFile {
  readonly file: string
  readonly pieces: ReadonlyArray<{
    readonly source: string
    readonly bytes: number | null
    readonly downloadName: string
  }>
  /** null: not known beforehand. */
  readonly bytes: number | null
  /** The configured digest, or the one pinned earlier. null: any content is accepted. */
  readonly sha256: string | null
}

export interface AssembleOptions {
  readonly folder: ModelFolder
  readonly room: Room
  readonly signal: AbortSignal
  readonly fetchPiece: (request: PieceRequest) => Promise<Result<Piece>>
  readonly onBytes: (piece: number, doneBytes: number, totalBytes: number | null) => void
}

export async function assemble(wantedFile: WantedFile, options: AssembleOptions): Promise<Result<StoredFile>> {
  for (let tries = 1; ; tries += 1) {
    const joined = await joinPieces(wantedFile, options)
    if (!joined.ok) return joined
    const checked = await checkFile(wantedFile, joined.value.path, options.signal)
    if (checked.ok) return ok(await giveName(wantedFile, joined.value.path, checked.value, options.folder))
    await joined.value.drop()
    if (tries >= MAX_TRIES || !joined.value.isContinued) return checked
  }
}

/** Checks size and digest. */
export async function checkFile(
  wantedFile: Pick<WantedFile, 'file' | 'bytes' | 'sha256'>,
  place: string,
  signal: AbortSignal,
): Promise<Result<{ bytes: number; sha256: string; modifiedMs: number }>> {
  const { size: bytes, mtimeMs: modifiedMs } = await fs.stat(place)
  if (wantedFile.bytes !== null && bytes !== wantedFile.bytes)
    return wrongBytes(wantedFile.file, wantedFile.bytes, bytes)
  const sha256 = await hashFile(place, 'sha256', signal)
  if (wantedFile.sha256 === null || sha256 === wantedFile.sha256) return ok({ bytes, sha256, modifiedMs })
  const facts = { algorithm: 'sha256', digest: sha256, expectedDigest: wantedFile.sha256 }
  return fail('wrong_digest', { name: wantedFile.file, ...facts })
}

const progress = z.object({ sources: z.array(z.string()), pieces: z.int().min(0), bytes: z.int().min(0) })
type Progress = z.infer<typeof progress>

interface JoinedFile {
  readonly path: string
  readonly isContinued: boolean
  drop(): Promise<void>
}

async function joinPieces(wantedFile: WantedFile, options: AssembleOptions): Promise<Result<JoinedFile>> {
  const place = joinedPath(wantedFile, options.folder)
  const previous = await readProgress(wantedFile, options.folder)
  let isContinued = previous.pieces > 0
  let { bytes } = previous
  for (const [at, { source, bytes: pieceBytes, downloadName }] of wantedFile.pieces.entries()) {
    if (at < previous.pieces) {
      options.onBytes(at, pieceBytes ?? 0, pieceBytes)
      continue
    }
    const piece = await options.fetchPiece({
      source,
      bytes: pieceBytes,
      isChecked: wantedFile.sha256 !== null,
      target: path.join(options.folder.partsPath, downloadName),
      room: options.room,
      signal: options.signal,
      onBytes: (done, total) => options.onBytes(at, done, total),
    })
    if (!piece.ok) return piece
    isContinued ||= piece.value.isContinued
    const { ownPath } = piece.value
    const drop = (): Promise<void> => piece.value.discard()
    // A single unmodified piece needs no joining.
    if (wantedFile.pieces.length === 1 && ownPath !== null) return ok({ path: ownPath, isContinued, drop })
    const appended = await append(place, bytes, piece.value, { source, pieceBytes, room: options.room })
    if (!appended.ok) return appended
    bytes += appended.value
    await writeProgress(wantedFile, options.folder, at + 1, bytes)
    await drop()
  }
  return ok({ path: place, isContinued, drop: () => dropJoined(wantedFile, options.folder) })
}

async function append(
  place: string,
  from: number,
  piece: Piece,
  order: { readonly source: string; readonly pieceBytes: number | null; readonly room: Room },
): Promise<Result<number>> {
  const { source, pieceBytes, room } = order
  const handle = await fs.open(place, from === 0 ? 'w' : 'r+', 0o600)
  let bytes = 0
  try {
    await handle.truncate(from)
    for await (const chunk of piece.read()) {
      const refused = (await room.take(chunk.length)) ?? (await writeAt(handle, chunk, from + bytes))
      if (refused !== undefined) return await giveUp(piece, refused)
      bytes += chunk.length
      if (pieceBytes !== null && bytes > pieceBytes) break
    }
    if (pieceBytes !== null && bytes !== pieceBytes) return await giveUp(piece, wrongBytes(source, pieceBytes, bytes))
    await handle.sync()
    return ok(bytes)
  } catch (error) {
    if (!(error instanceof PieceError)) throw error
    return await giveUp(piece, fail('bad_content', { message: error.message }))
  } finally {
    await handle.close()
  }
}

/** Discards the piece, which would only take up space until the next attempt. */
async function giveUp(piece: Piece, failure: Failure): Promise<Failure> {
  await piece.discard()
  return failure
}

async function giveName(
  wantedFile: WantedFile,
  from: string,
  checked: { readonly bytes: number; readonly sha256: string; readonly modifiedMs: number },
  folder: ModelFolder,
): Promise<StoredFile> {
  const place = path.join(folder.path, wantedFile.file)
  const handle = await fs.open(from, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
  await fs.rename(from, place)
  await syncFolder(folder.path)
  return { file: wantedFile.file, sources: sourcesOf(wantedFile), path: place, ...checked }
}

export function sourcesOf(wantedFile: WantedFile): string[] {
  return wantedFile.pieces.map(({ source }) => source)
}

/** null if either size is unknown. */
export function addOrNull(sum: number | null, addend: number | null): number | null {
  return sum === null || addend === null ? null : sum + addend
}

function joinedPath(wantedFile: WantedFile, folder: ModelFolder): string {
  return path.join(folder.partsPath, `${wantedFile.file}.joined`)
}

/** The progress of an earlier attempt; none if the sources have changed. */
async function readProgress(wantedFile: WantedFile, folder: ModelFolder): Promise<Progress> {
  const none: Progress = { sources: sourcesOf(wantedFile), pieces: 0, bytes: 0 }
  const text = await fs.readFile(`${joinedPath(wantedFile, folder)}.json`, 'utf8').catch(unlessGone(''))
  const { size } = await fs.stat(joinedPath(wantedFile, folder)).catch(unlessGone({ size: -1 }))
  try {
    const previous = progress.parse(JSON.parse(text))
    const isSame = JSON.stringify(previous.sources) === JSON.stringify(none.sources)
    return isSame && size >= previous.bytes ? previous : none
  } catch {
    return none
  }
}

async function writeProgress(
  wantedFile: WantedFile,
  folder: ModelFolder,
  pieces: number,
  bytes: number,
): Promise<void> {
  const place = `${joinedPath(wantedFile, folder)}.json`
  const next: Progress = { sources: sourcesOf(wantedFile), pieces, bytes }
  await fs.writeFile(`${place}.new`, JSON.stringify(next), { mode: 0o600 })
  await fs.rename(`${place}.new`, place)
}

async function dropJoined(wantedFile: WantedFile, folder: ModelFolder): Promise<void> {
  await fs.rm(`${joinedPath(wantedFile, folder)}.json`, { force: true })
  await fs.rm(joinedPath(wantedFile, folder), { force: true })
}

function wrongBytes(name: string, expectedBytes: number, bytes: number): Failure {
  return fail('wrong_size', { name, bytes, expectedBytes })
}
