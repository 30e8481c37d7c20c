/**
 * `file:PATH`: a file on the server's machine. A single file is used in place: a copy would double the disk use, and a
 * hard link fails across disks and keeps the space in use when the owner deletes the file. The store checks it before
 * every start of its engine and reports a missing or changed file. As one of several pieces it is read like any other.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { fail, ok, type Result } from '../../contract/result.ts'
import { unlessGone } from '../download/disk-budget.ts'
import { readChunks } from '../download/file-digest.ts'
import type { Piece, PieceRequest } from './piece.ts'

export async function openFilePiece(request: PieceRequest): Promise<Result<Piece>> {
  const file = await findSourceFile(request.source)
  if (!file.ok) return file
  request.onBytes(file.value.bytes, file.value.bytes)
  return ok({
    ownPath: null,
    isContinued: false,
    read: () => readChunks(file.value.path, request.signal),
    discard: () => Promise.resolve(),
  })
}

/** Resolves symbolic links. */
export async function findSourceFile(source: string): Promise<Result<{ path: string; bytes: number }>> {
  const place = pathOf(source)
  if (place === undefined) {
    return fail('bad_source', { message: `${source} is not an absolute path.` })
  }
  try {
    const real = await fs.realpath(place).catch(unlessGone(undefined))
    if (real === undefined) return fail('file_not_found', { source, code: undefined })
    const stat = await fs.stat(real)
    if (!stat.isFile()) return fail('bad_source', { message: `${source} is not a regular file.` })
    await fs.access(real, fs.constants.R_OK)
    return ok({ path: real, bytes: stat.size })
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (!['EACCES', 'EPERM', 'ENOTDIR', 'ELOOP', 'ENOENT', 'ENAMETOOLONG'].includes(code)) throw error
    return fail('file_not_found', { source, code })
  }
}

function pathOf(source: string): string | undefined {
  const address = source.slice('file:'.length)
  const place = address.startsWith('//') ? pathOfUrl(source) : path.normalize(address)
  return place === undefined || place.includes('\0') || !path.isAbsolute(place) ? undefined : place
}

function pathOfUrl(url: string): string | undefined {
  try {
    return fileURLToPath(url)
  } catch {
    return undefined
  }
}
