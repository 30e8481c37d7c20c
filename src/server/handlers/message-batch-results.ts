/** The results of a batch of messages in the form of Anthropic's API, made of the two files of results while they are read. */
import type { App } from '../../app/app.ts'
import { readFile } from '../../app/file/file.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { endOfBatch, type Batch } from '../../store/batch/batch.ts'
import { findFile, type StoredFile } from '../../store/file/file.ts'
import { parseObject } from '../../gateway/dialect/usage.ts'
import { readLines } from '../batch/input-file.ts'
import { messageErrorForm } from '../../contract/message-error.ts'
import type { Download } from '../http/handler.ts'
import { findMessageBatch } from './message-batch.ts'

/** A line of a file of results, as line-answer.ts writes it. */
interface ResultLine {
  readonly custom_id: string
  readonly response: { readonly status_code: number; readonly body: unknown } | null
  readonly error: { readonly code: string } | null
}

export async function openMessageBatchResults(app: App, accountId: string, id: string): Promise<Result<Download>> {
  const { db } = app.database
  const lookup = await findMessageBatch(db, accountId, id)
  if (!lookup.ok) return lookup
  const batch = lookup.value
  if (endOfBatch(batch) === null) return fail('batch_not_ended')
  // A batch that ended before its lines were read has no results: all its requests have the same one.
  const isUnread = batch.in_progress_at === null
  const ids = isUnread ? [batch.input_file_id] : [batch.output_file_id, batch.error_file_id]
  const files: StoredFile[] = []
  for (const fileId of ids) {
    if (fileId === null) continue
    const file = await findFile(db, accountId, fileId)
    if (file === undefined) return fail('stored_file_not_found')
    files.push(file)
  }
  const unread = isUnread ? unreadResult(batch) : undefined
  return ok({ name: `${id}_results.jsonl`, bytes: undefined, content: resultLines(app, files, unread) })
}

async function* resultLines(
  app: App,
  files: readonly StoredFile[],
  unread: object | undefined,
): AsyncGenerator<Buffer> {
  for (const file of files) {
    for await (const { bytes } of readLines(readFile(app, file))) {
      const line = bytes === undefined ? undefined : parseObject(bytes.toString('utf8'))
      if (line === undefined && unread === undefined) throw new Error(`${file.id} has a line that is no result`)
      const result = unread ?? resultOf(line as unknown as ResultLine)
      yield Buffer.from(`${JSON.stringify({ custom_id: customIdOf(line), result })}\n`)
    }
  }
}

/** The lines of a file that a customer has uploaded can be anything. */
function customIdOf(line: Record<string, unknown> | undefined): string {
  const id = line?.['custom_id']
  return typeof id === 'string' ? id : ''
}

function resultOf({ response, error }: ResultLine): object {
  if (response === null) return error?.code === 'batch_cancelled' ? canceled : expired
  const { status_code: status, body } = response
  return status === 200 ? { type: 'succeeded', message: body } : { type: 'errored', error: body }
}

const canceled = { type: 'canceled' }
const expired = { type: 'expired' }

function unreadResult({ status, errors }: Batch): object {
  if (status !== 'failed') return status === 'cancelled' ? canceled : expired
  const message = errors?.[0]?.message ?? ''
  return { type: 'errored', error: messageErrorForm.write({ status: 400, message }).body }
}
