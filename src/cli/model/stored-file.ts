/** Files of an account and files of this machine: one becomes the other, however large it is. */
import { randomUUID } from 'node:crypto'
import { createWriteStream, openAsBlob } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { limits } from '../../base/limits.ts'
import type { Client, Reply } from '../../client/client.ts'
import { isClientError, unreachable } from '../../client/error.ts'
import { fileSize } from '../../view/number.ts'
import { checkOutput, type OutputOptions } from '../kit/output-file.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import { openDownload } from '../rental/download.ts'
import type { Session } from '../rental/session.ts'

/** Reads the file while it is sent. A lost connection uploads it once. */
export async function uploadFile(client: Client, file: string, expireSeconds?: number): Promise<Reply<'uploadFile'>> {
  const form = new FormData()
  form.set('purpose', 'batch')
  if (expireSeconds !== undefined) {
    form.set('expires_after[anchor]', 'created_at')
    form.set('expires_after[seconds]', String(expireSeconds))
  }
  form.set('file', await openInput(file), path.basename(file))
  return client.callForm('uploadFile', form, { idempotencyKey: randomUUID(), timeoutMs: limits.uploadMs })
}

async function openInput(file: string): Promise<Blob> {
  const blob = await readAsBlob(file)
  if (blob.size <= limits.uploadBytes) return blob
  const most = fileSize(limits.uploadBytes)
  throw new CliError(exitCodes.usage, `${file} has ${fileSize(blob.size)}; a file has at most ${most}.`, [
    'Split it into several files.',
  ])
}

async function readAsBlob(file: string): Promise<Blob> {
  // It throws at once where the file cannot be opened, before there is a promise.
  try {
    return await openAsBlob(file)
  } catch {
    throw cannotRead(file)
  }
}

export function cannotRead(file: string): CliError {
  return new CliError(exitCodes.usage, `Cannot read ${file}.`, ['Check its name, and that you may read it.'])
}

/** A download that breaks off leaves nothing, and what the file held before stays. */
export async function downloadFile(session: Session, id: string, options: OutputOptions): Promise<void> {
  checkOutput(options)
  const content = await openDownload(session, `/v1/files/${encodeURIComponent(id)}/content`)
  const part = `${options.output}.part`
  try {
    await pipeline(withCause(session, content), createWriteStream(part))
    checkOutput(options)
    await rename(part, options.output)
  } catch (error) {
    await rm(part, { force: true })
    if (isClientError(error) || error instanceof CliError) throw error
    throw new CliError(exitCodes.failed, `Cannot write ${options.output}: ${(error as Error).message}.`)
  }
}

async function* withCause({ client }: Session, content: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* content
  } catch (error) {
    throw unreachable(client.url, error)
  }
}
