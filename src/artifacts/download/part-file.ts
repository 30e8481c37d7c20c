/**
 * An unfinished download: the `.part` file, and a note with its synced length and version. A power failure may leave a
 * file longer than its data, so a download resumes only from the length in the note.
 */
import fs from 'node:fs/promises'
import { z } from 'zod'
import { fail, type Failure } from '../../contract/result.ts'
import { unlessGone } from './disk-budget.ts'

/** Bytes are synced after every step of this size. */
const CHECKPOINT_BYTES = 16 * 1_048_576

const note = z.object({
  /** The entity tag or date of the version. null: unknown. */
  validator: z.string().nullable(),
  safeBytes: z.int().min(0),
  isWhole: z.boolean(),
})
type Note = z.infer<typeof note>

const nothing: Note = { validator: null, safeBytes: 0, isWhole: false }

export interface PartFile {
  /** Written bytes, synced or not. */
  readonly bytes: number
  readonly note: Note
  cutTo(bytes: number): Promise<void>
  /** Sets the version of everything appended from now on. */
  begin(validator: string | null): Promise<void>
  append(chunk: Uint8Array): Promise<Failure | undefined>
  /** Syncs appended bytes. */
  checkpoint(): Promise<void>
  finish(): Promise<void>
  close(): Promise<void>
}

export async function openPart(partPath: string): Promise<PartFile> {
  // A crash just before the last step has left the part with the permissions of the complete file.
  await fs.chmod(partPath, 0o600).catch(unlessGone(undefined))
  await (await fs.open(partPath, 'a', 0o600)).close()
  const handle = await fs.open(partPath, 'r+')
  const notePath = notePathOf(partPath)
  const existing = await readNote(notePath)
  let now: Note = existing.safeBytes <= (await handle.stat()).size ? existing : nothing
  let bytes = now.safeBytes

  const write = async (next: Note): Promise<void> => {
    await fs.writeFile(`${notePath}.new`, JSON.stringify(next), { mode: 0o600 })
    await fs.rename(`${notePath}.new`, notePath)
    now = next
  }
  const checkpoint = async (): Promise<void> => {
    if (bytes === now.safeBytes) return
    await handle.datasync()
    await write({ ...now, safeBytes: bytes })
  }
  return {
    get bytes() {
      return bytes
    },
    get note() {
      return now
    },
    cutTo: async (length) => {
      // The note is written first, since it must never claim more bytes than the file has.
      if (length < now.safeBytes) await write({ ...now, safeBytes: length, isWhole: false })
      await handle.truncate(length)
      bytes = length
    },
    begin: (validator) => write({ ...now, validator }),
    append: async (chunk) => {
      const refused = await writeAt(handle, chunk, bytes)
      if (refused !== undefined) return refused
      bytes += chunk.length
      if (bytes - now.safeBytes >= CHECKPOINT_BYTES) await checkpoint()
      return undefined
    },
    checkpoint,
    finish: async () => {
      await handle.sync()
      await write({ ...now, safeBytes: bytes, isWhole: true })
    },
    close: () => handle.close(),
  }
}

/** Deletes the part, so that the next download starts over. */
export async function dropPart(partPath: string): Promise<void> {
  await fs.rm(notePathOf(partPath), { force: true })
  await fs.rm(partPath, { force: true })
}

/** A full disk is an expected failure; other disk errors are exceptions. */
export async function writeAt(
  handle: fs.FileHandle,
  chunk: Uint8Array,
  position: number,
): Promise<Failure | undefined> {
  try {
    for (let written = 0; written < chunk.length;) {
      written += (await handle.write(chunk, written, chunk.length - written, position + written)).bytesWritten
    }
    return undefined
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (!['ENOSPC', 'EDQUOT', 'EFBIG'].includes(code)) throw error
    return fail('disk_full', { code })
  }
}

async function readNote(notePath: string): Promise<Note> {
  const text = await fs.readFile(notePath, 'utf8').catch(unlessGone(''))
  try {
    return note.parse(JSON.parse(text))
  } catch {
    // The note is missing or was torn by a power failure, so the part cannot be used.
    return nothing
  }
}

function notePathOf(partPath: string): string {
  return `${partPath}.json`
}
