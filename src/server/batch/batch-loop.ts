/**
 * The loop that begins and ends batches: it reads input files into lines, and writes the files of results. One server at a
 * time has a batch. Both steps may be done again from their start: what a killed server has left does not count.
 */
import type { App } from '../../app/app.ts'
import { discardFile, readFile, writeFile } from '../../app/file/file.ts'
import { randomUUID } from 'node:crypto'
import { addMs, DAY_MS, SECOND_MS, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { openPiece } from '../../base/sealed-bytes.ts'
import type { BatchFault } from '../../contract/batch-state.ts'
import { lineRequestId } from '../../domain/batch.ts'
import type { Reconciler } from '../../reconcile/loop.ts'
import {
  BATCH_WAKE,
  beginLines,
  endBatch,
  failBatch,
  finalizeDueBatches,
  leaseBatch,
  renewBatch,
  type Batch,
} from '../../store/batch/batch.ts'
import {
  clearLines,
  insertLines,
  listLines,
  revokeLines,
  type EndedLine,
  type LinePlace,
} from '../../store/batch/batch-line.ts'
import { findFile, finishFile, type StoredFile } from '../../store/file/file.ts'
import { transact } from '../../store/platform/database.ts'
import { LineReader, readLines } from './input-file.ts'
import { unansweredText } from './line-answer.ts'
import { InputCheck, parseLine } from './line-input.ts'

const EVERY_MS = SECOND_MS
const LEASE_MS = 60 * SECOND_MS
const RENEW_MS = 15 * SECOND_MS
/** The delay after an error. */
const AGAIN_MS = 10 * SECOND_MS
const INSERT_LINES = 1_000
const READ_LINES = 100

export type BatchApp = Pick<App, 'database' | 'clock' | 'vault' | 'bucket' | 'warn'>

/** Why lines of this account cannot use a model. undefined: they can. */
export type RefuseModel = (batch: Batch, model: string) => Promise<Omit<BatchFault, 'line'> | undefined>

export function runBatches(app: BatchApp, refuseModel: RefuseModel): Reconciler {
  return {
    name: BATCH_WAKE,
    everyMs: EVERY_MS,
    run: async (signal) => {
      const { db } = app.database
      await finalizeDueBatches(db, app.clock.now())
      const token = randomUUID()
      const batch = await leaseBatch(db, { now: app.clock.now(), token, leaseMs: LEASE_MS })
      if (batch === undefined) return false
      const held = new HeldBatch(app, batch, token, signal)
      try {
        if (batch.status === 'validating') await readInput(app, held, refuseModel)
        else await writeResultFiles(app, held)
      } catch (error) {
        if (error instanceof LeaseLost || signal.aborted) return false
        await renewBatch(db, { id: batch.id, token, until: addMs(app.clock.now(), AGAIN_MS) })
        throw error
      }
      return true
    },
  }
}

/** Another server has the batch, or this one stops. */
class LeaseLost extends Error {}

class HeldBatch {
  readonly batch: Batch
  readonly token: string
  readonly #app: BatchApp
  readonly #signal: AbortSignal
  #renewedAt: Instant

  constructor(app: BatchApp, batch: Batch, token: string, signal: AbortSignal) {
    this.batch = batch
    this.token = token
    this.#app = app
    this.#signal = signal
    this.#renewedAt = app.clock.now()
  }

  /** Called again and again during long work. */
  async keep(): Promise<void> {
    if (this.#signal.aborted) throw new LeaseLost()
    const now = this.#app.clock.now()
    if (now - this.#renewedAt < RENEW_MS) return
    this.#renewedAt = now
    const { token } = this
    const isKept = await renewBatch(this.#app.database.db, {
      id: this.batch.id,
      token,
      until: addMs(now, LEASE_MS),
    })
    if (!isKept) throw new LeaseLost()
  }
}

async function readInput(app: BatchApp, held: HeldBatch, refuseModel: RefuseModel): Promise<void> {
  const { batch, token } = held
  const { db } = app.database
  const path = batch.endpoint
  await clearLines(db, batch.id)
  const file = await findFile(db, batch.account_id, batch.input_file_id)
  const check = new InputCheck(path)
  if (file === undefined) {
    const message = 'The file was deleted'
    check.faults.push({ code: 'file_not_found', line: null, message, param: 'input_file_id' })
  } else await readPlaces(app, held, file, check)
  if (check.faults.length === 0 && check.model !== undefined) {
    const fault = await refuseModel(batch, check.model)
    if (fault !== undefined) check.faults.push({ ...fault, line: 1 })
  }
  const { model, lines, faults } = check
  await transact(app.database, async (tx) => {
    if (faults.length === 0 && model !== undefined)
      return void (await beginLines(tx, { id: batch.id, token, model, lines }))
    await failBatch(tx, { id: batch.id, token, errors: faults })
    return clearLines(tx.db, batch.id)
  })
}

async function readPlaces(app: BatchApp, held: HeldBatch, file: StoredFile, check: InputCheck): Promise<void> {
  const { id } = held.batch
  let places: LinePlace[] = []
  const flush = async (): Promise<void> => {
    if (places.length > 0) await insertLines(app.database.db, id, places, app.clock.now())
    places = []
  }
  for await (const input of readLines(readFile(app, file))) {
    check.take(input)
    if (check.isFull) return
    if (check.faults.length > 0) continue
    places.push(input.place)
    if (places.length < INSERT_LINES) continue
    await held.keep()
    await flush()
  }
  check.end()
  await flush()
}

/** Lines that were not run are in the error file, so that each line is in one of the two. */
async function writeResultFiles(app: BatchApp, held: HeldBatch): Promise<void> {
  const { batch, token } = held
  await revokeLines(app.database.db, batch.id)
  const output = await writeResultFile(app, held, 'output')
  const errors = await writeResultFile(app, held, 'errors')
  const files = [output, errors].filter((file) => file !== undefined)
  const isEnded = await transact(app.database, async (tx) => {
    const now = tx.clock.now()
    const expiresAt =
      batch.output_seconds === null
        ? addMs(now, limits.fileDays * DAY_MS)
        : addMs(now, batch.output_seconds * SECOND_MS)
    for (const file of files) if ((await finishFile(tx, file.id, expiresAt)) === undefined) return false
    const ids = { outputFileId: output?.id ?? null, errorFileId: errors?.id ?? null }
    return endBatch(tx, { id: batch.id, token, ...ids })
  }).catch((error: unknown) => {
    app.warn?.(error, `could not end ${batch.id}; it will be tried again`)
    return false
  })
  if (!isEnded) for (const file of files) await discardFile(app, file)
}

/** undefined: no line belongs into it. */
async function writeResultFile(
  app: BatchApp,
  held: HeldBatch,
  kind: 'output' | 'errors',
): Promise<StoredFile | undefined> {
  const { batch } = held
  const lines = resultLines(app, held, kind === 'errors')
  const first = await lines.next()
  if (first.done === true) return undefined
  const all = async function* (): AsyncGenerator<Buffer> {
    yield first.value
    yield* lines
  }
  const written = await writeFile(
    app,
    { accountId: batch.account_id, name: `${batch.id}_${kind}.jsonl`, purpose: 'batch_output', isLimited: false },
    all(),
  )
  if (!written.ok) throw new Error(`could not write the results of ${batch.id}: ${written.message}`)
  return written.value
}

async function* resultLines(app: BatchApp, held: HeldBatch, isFailed: boolean): AsyncGenerator<Buffer> {
  const { batch } = held
  const key = app.vault.open(batch.key_sealed)
  const input = await openInput(app, batch)
  for (let after = 0; ;) {
    const lines = await listLines(app.database.db, batch.id, { after, limit: READ_LINES })
    for (const line of lines) {
      if (line.isFailed !== isFailed) continue
      yield line.result === null ? await unansweredLine(batch, line, input) : openPiece(key, line.line, line.result)
    }
    after = lines.at(-1)?.line ?? after
    if (lines.length < READ_LINES) return
    await held.keep()
  }
}

async function openInput(app: BatchApp, batch: Batch): Promise<LineReader | undefined> {
  const file = await findFile(app.database.db, batch.account_id, batch.input_file_id)
  return file && new LineReader(app, file)
}

const whyUnanswered = {
  cancelling: { code: 'batch_cancelled', message: 'The batch was cancelled before this line was run.' },
  finalizing: { code: 'batch_expired', message: 'The batch expired before this line was run.' },
} as const

async function unansweredLine(batch: Batch, line: EndedLine, input: LineReader | undefined): Promise<Buffer> {
  const parsed = input === undefined ? undefined : parseLine(await input.read(line), batch.endpoint)
  const customId = parsed !== undefined && 'request' in parsed ? parsed.request.customId : ''
  const requestId = lineRequestId({ id: batch.id, createdAt: batch.created_at }, line.line)
  const why = whyUnanswered[batch.status === 'cancelling' ? 'cancelling' : 'finalizing']
  return Buffer.from(unansweredText({ batchId: batch.id, line: line.line, customId, requestId }, why))
}
