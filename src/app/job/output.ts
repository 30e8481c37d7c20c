/**
 * The output of an attempt, which its host sends before it removes the container. The archive is stored unchanged; its
 * list of files and its result are read on the way. If it is sent twice, the first one is kept.
 */
import { extract } from 'tar-stream'
import { addMs, DAY_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { JobOutput } from '../../contract/job.ts'
import { ok, type Result } from '../../contract/result.ts'
import { finishFile } from '../../store/file/file.ts'
import { transact } from '../../store/platform/database.ts'
import { findUncollected, saveOutput } from '../../store/job/attempt.ts'
import { JOBS_WAKE, lockJob } from '../../store/job/job.ts'
import type { App } from '../app.ts'
import { discardFile, writeFile, type FileApp } from '../file/file.ts'

const RESULT = 'result.json'
/** In the archive of a folder, each name begins with the name of the folder. */
export const OUTPUT_FOLDER = /^(?:\.\/)?output\/?/

/** Whether output is expected from a workload on this host. */
export async function awaitsOutput(app: Pick<App, 'database'>, hostId: string, workloadId: string): Promise<boolean> {
  return (await findUncollected(app.database.db, hostId, workloadId)) !== undefined
}

export async function collectOutput(
  app: FileApp,
  from: { readonly hostId: string; readonly workloadId: string },
  archive: AsyncIterable<Buffer>,
): Promise<Result<void>> {
  const attempt = await findUncollected(app.database.db, from.hostId, from.workloadId)
  if (attempt === undefined) return ok(undefined)
  const { job_id, task, account_id } = attempt
  const reader = new OutputReader(archive)
  const name = `${job_id}-${task}-output.tar`
  const file = await writeFile(
    app,
    { accountId: account_id, name, purpose: 'job_output', isLimited: true },
    reader.bytes(),
  )
  // The host tries again later.
  if (!file.ok && file.reason === 'too_many_uploads') return file
  // The archive cannot be stored, but its list and result can.
  for await (const _ of reader.bytes());
  const { output, result } = await reader.end(file.ok ? null : file.reason)
  const stored = file.ok ? file.value : undefined
  const isKept = stored !== undefined && output.problem === null && output.fileCount > 0
  const isSaved = await transact(app.database, async (tx) => {
    if ((await lockJob(tx, job_id)) === undefined) return false
    const expiresAt = addMs(tx.clock.now(), limits.jobDays * DAY_MS)
    const finished = isKept ? await finishFile(tx, stored.id, expiresAt) : undefined
    tx.wake.add(JOBS_WAKE)
    return saveOutput(tx, attempt, { fileId: finished?.id ?? null, output, result })
  })
  if (stored !== undefined && (!isKept || !isSaved)) await discardFile(app, stored)
  return ok(undefined)
}

/** Reads an archive once, in two independent ways: the stored bytes and the entries. Either may stop early. */
class OutputReader {
  readonly #chunks: AsyncIterator<Buffer>
  readonly #extract = extract()
  readonly #reading: Promise<void>
  readonly #files: Array<{ path: string; bytes: number }> = []
  #fileCount = 0
  #fileBytes = 0
  #bytes = 0
  #resultText: string | undefined
  #isBroken = false

  constructor(archive: AsyncIterable<Buffer>) {
    this.#chunks = archive[Symbol.asyncIterator]()
    // A host can send anything. A broken archive is stored as it is, with the entries read so far.
    this.#reading = this.#readEntries().catch(() => {
      this.#isBroken = true
    })
  }

  async *bytes(): AsyncGenerator<Buffer> {
    for (;;) {
      const { done, value } = await this.#chunks.next()
      if (done === true) return
      this.#bytes += value.length
      await this.#parse(value)
      // Bytes beyond the limit are read and dropped, so that the host gets its answer.
      if (this.#bytes <= limits.jobOutputBytes) yield value
    }
  }

  async #parse(chunk: Buffer): Promise<void> {
    if (this.#isBroken || this.#extract.write(chunk)) return
    const drained = new Promise<void>((resolve) => {
      this.#extract.once('drain', () => resolve())
      this.#extract.once('close', () => resolve())
    })
    await Promise.race([drained, this.#reading])
  }

  async #readEntries(): Promise<void> {
    for await (const entry of this.#extract) {
      const { name, type, size } = entry.header
      const path = name.replace(OUTPUT_FOLDER, '')
      const isFile = type === 'file' || type === 'contiguous-file'
      if (isFile) {
        this.#fileCount += 1
        this.#fileBytes += size
        if (this.#files.length < limits.jobOutputFiles) this.#files.push({ path, bytes: size })
      }
      if (isFile && path === RESULT && size <= limits.jobResultBytes)
        this.#resultText = await readText(entry as AsyncIterable<Buffer>)
      else entry.resume()
    }
  }

  async end(refusal: string | null): Promise<{ readonly output: JobOutput; readonly result: unknown }> {
    if (!this.#isBroken) this.#extract.end(Buffer.alloc(0))
    await this.#reading
    const isTooLarge = this.#bytes > limits.jobOutputBytes
    const problem = refusal ?? (isTooLarge ? 'output_too_large' : this.#isBroken ? 'output_unreadable' : null)
    const output = { files: this.#files, fileCount: this.#fileCount, bytes: this.#fileBytes, problem }
    return { output, result: parseResult(this.#resultText) }
  }
}

async function readText(entry: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of entry) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}

/** A result that is not JSON is treated as an ordinary file. */
function parseResult(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : (JSON.parse(text) as unknown)
  } catch {
    return undefined
  }
}
