/**
 * Runs the lines of batches on the idle slots of this server's gateway. A line is leased, sent, and its result written in
 * the transaction that charges it, so a server may be killed between any two steps: the lease ends, and another server
 * runs the line again. Several servers share a batch line by line.
 */
import { randomUUID } from 'node:crypto'
import { storeResults, type EndedLine } from '../../app/batch/batch.ts'
import { addMs, SECOND_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { sealPiece } from '../../base/sealed-bytes.ts'
import type { Failure, Result } from '../../contract/result.ts'
import { lineRequestId } from '../../domain/batch.ts'
import type { Caller } from '../../gateway/call.ts'
import type { Meter, OwnRecord } from '../../gateway/money/meter.ts'
import { listRunnableBatches, pauseBatch, type Batch } from '../../store/batch/batch.ts'
import { leaseLines, releaseLine, releaseLines, renewLines, type LeasedLine } from '../../store/batch/batch-line.ts'
import { findFile } from '../../store/file/file.ts'
import type { BatchGateway } from './batch-gateway.ts'
import type { BatchApp } from './batch-loop.ts'
import { LineReader } from './input-file.ts'
import { answerLine, resultText, type LineAnswer } from './line-answer.ts'
import { parseLine } from './line-input.ts'
import { nextStepOf } from './line-step.ts'

const TICK_MS = 200
/** While no batch has lines to run. */
const IDLE_TICKS = 5
const LEASE_MS = 60 * SECOND_MS
const RENEW_MS = 15 * SECOND_MS
const MONEY_WAIT_MS = 10 * SECOND_MS
/** With the idle ticks, slots that become free have lines within two seconds. */
const CAPACITY_WAIT_MS = SECOND_MS / 2
const FAULT_WAIT_MS = 5 * SECOND_MS
const BATCHES = 100
/** One batch starts so many in one turn, so that batches share idle slots. */
const LEASE_LINES = 32
const MAX_RUNNING = 256
/** Results that are written in one transaction. */
const STORE_LINES = 64
const MAX_STORE_TRIES = 5

export interface BatchRunnerOptions {
  readonly app: BatchApp
  readonly gateway: BatchGateway
  readonly meter: Pick<Meter, 'settleWith'>
  readonly gatewayId: string
  /** The caller that a key is, if it may call now. */
  readonly callerOf: (keyId: string) => Promise<Result<Caller>>
}

interface Ended extends EndedLine {
  readonly ownRecord: OwnRecord | undefined
}

export class BatchRunner {
  readonly #options: BatchRunnerOptions
  /** The lines that this run of the server has leased. */
  readonly #token = randomUUID()
  readonly #readers = new Map<string, LineReader>()
  readonly #ended = new Map<string, { readonly batch: Batch; readonly lines: Ended[]; isStoring: boolean }>()
  readonly #work = new Set<Promise<void>>()
  /** The lines that run. */
  readonly #lines = new Set<string>()
  #running = 0
  #isClosed = false
  #quietTicks = 0
  #renewedMs = performance.now()
  #ticking: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: BatchRunnerOptions) {
    this.#options = options
  }

  start(): void {
    this.#timer = setInterval(() => this.#wake(), TICK_MS).unref()
  }

  #wake(): void {
    if (!this.#isClosed) this.#ticking ??= this.#tick()
  }

  /** Lines that run are left to another server: they have not been charged. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    await this.#ticking
    await Promise.all([...this.#ended.values()].map((one) => this.#store(one)))
    await releaseLines(this.#options.app.database.db, this.#token)
  }

  async #tick(): Promise<void> {
    try {
      await this.#renew()
      if (this.#quietTicks > 0) this.#quietTicks -= 1
      else if (!(await this.startLines())) this.#quietTicks = IDLE_TICKS
    } catch (error) {
      this.#options.app.warn?.(error, 'could not run lines of batches; they will be tried again')
      this.#quietTicks = IDLE_TICKS
    } finally {
      this.#ticking = undefined
    }
  }

  async #renew(): Promise<void> {
    if (this.#running === 0 || performance.now() - this.#renewedMs < RENEW_MS) return
    this.#renewedMs = performance.now()
    const { database, clock } = this.#options.app
    await renewLines(database.db, { token: this.#token, now: clock.now(), leaseMs: LEASE_MS })
  }

  /** Starts as many lines as there are idle slots, batch by batch. False: no batch has lines that may start now. */
  async startLines(): Promise<boolean> {
    const { database, clock } = this.#options.app
    const batches = await listRunnableBatches(database.db, clock.now(), BATCHES)
    const open = new Set(batches.map(({ id }) => id))
    for (const id of this.#readers.keys()) if (!open.has(id)) this.#readers.delete(id)
    let waiting = batches
    while (waiting.length > 0 && !this.#isClosed) {
      const more: Batch[] = []
      for (const batch of waiting) if (await this.#startSome(batch)) more.push(batch)
      waiting = more
    }
    return batches.length > 0
  }

  /** Resolves when the lines that run have ended and their results are written. */
  async settled(): Promise<void> {
    while (this.#work.size > 0) await Promise.all(this.#work)
  }

  /** False: nothing more of it can start now. */
  async #startSome(batch: Batch): Promise<boolean> {
    const { app, gateway } = this.#options
    const model = batch.model ?? ''
    const limit = Math.min(gateway.places(model), LEASE_LINES, MAX_RUNNING - this.#running)
    if (limit <= 0) {
      if (batch.waits_for === null && this.#running === 0) await this.#noteCapacity(batch)
      return false
    }
    const lease = { now: app.clock.now(), token: this.#token, leaseMs: LEASE_MS, limit }
    const lines = await leaseLines(app.database.db, batch.id, lease)
    // A lease may have ended while its line still runs here.
    for (const line of lines) if (!this.#lines.has(`${batch.id} ${line.line}`)) this.#begin(batch, line)
    return lines.length === limit
  }

  /** Records for the customer that capacity is missing. The batch looks for a slot again at once. */
  async #noteCapacity(batch: Batch): Promise<void> {
    const { database, clock } = this.#options.app
    await pauseBatch(database.db, batch.id, 'capacity', clock.now())
  }

  #begin(batch: Batch, line: LeasedLine): void {
    this.#running += 1
    this.#lines.add(`${batch.id} ${line.line}`)
    const model = batch.model ?? ''
    const work = this.#options.gateway
      .run(model, () => this.#run(batch, line))
      .catch((error: unknown) => {
        this.#options.app.warn?.(error, `could not run line ${line.line} of ${batch.id}; it will be tried again`)
      })
      .finally(() => {
        this.#running -= 1
        this.#lines.delete(`${batch.id} ${line.line}`)
        this.#work.delete(work)
        // The slot of the line is free again.
        if (this.#timer !== undefined) this.#wake()
      })
    this.#work.add(work)
  }

  async #run(batch: Batch, line: LeasedLine): Promise<void> {
    const { gateway } = this.#options
    const reader = await this.#readerOf(batch)
    const parsed = parseLine(await reader.read(line), batch.endpoint)
    if ('fault' in parsed) throw new Error('a line is not what was validated')
    const requestId = lineRequestId({ id: batch.id, createdAt: batch.created_at }, line.line)
    const caller = await this.#options.callerOf(batch.api_key_id)
    const answer: LineAnswer = caller.ok
      ? await answerLine(gateway.gateway, caller.value, batch.endpoint, parsed.request, requestId)
      : caller
    const record = gateway.takeRecord(requestId)
    if (this.#isClosed) return this.#drop(record === undefined ? [] : [record])
    if (!answer.ok && !(await this.#isFinal(batch, line, answer))) return
    const ids = { batchId: batch.id, line: line.line, customId: parsed.request.customId, requestId }
    const text = Buffer.from(resultText(ids, batch.endpoint, answer))
    const key = this.#options.app.vault.open(batch.key_sealed)
    const sealed = sealPiece(key, line.line, text)
    await this.#end(batch, { line: line.line, sealed, isFailed: !answer.ok, record: record?.record, ownRecord: record })
  }

  /** Drops records without charging them. */
  #drop(records: readonly OwnRecord[]): Promise<void> {
    return this.#options.meter.settleWith(records, async () => new Set())
  }

  /** False: the line is tried again later. */
  async #isFinal(batch: Batch, { line, attempts }: LeasedLine, failure: Failure): Promise<boolean> {
    const step = nextStepOf(failure)
    const isFault = step === 'retry'
    if (step === 'give_up' || (isFault && attempts + 1 >= limits.batchLineAttempts)) return true
    const { database, clock } = this.#options.app
    const now = clock.now()
    const dueAt = isFault ? addMs(now, FAULT_WAIT_MS * (attempts + 1)) : now
    await releaseLine(database.db, batch.id, { line, token: this.#token, dueAt, isFault })
    if (step === 'wait_for_money') await pauseBatch(database.db, batch.id, 'money', addMs(now, MONEY_WAIT_MS))
    if (step === 'wait') await pauseBatch(database.db, batch.id, 'capacity', addMs(now, CAPACITY_WAIT_MS))
    return false
  }

  async #readerOf(batch: Batch): Promise<LineReader> {
    const existingReader = this.#readers.get(batch.id)
    if (existingReader !== undefined) return existingReader
    const { app } = this.#options
    const file = await findFile(app.database.db, batch.account_id, batch.input_file_id)
    if (file === undefined) throw new Error(`the input of ${batch.id} is missing`)
    const reader = new LineReader(app, file)
    this.#readers.set(batch.id, reader)
    return reader
  }

  /** Results that come while others are written go together into the next transaction. */
  async #end(batch: Batch, ended: Ended): Promise<void> {
    const one = this.#ended.get(batch.id) ?? { batch, lines: [], isStoring: false }
    this.#ended.set(batch.id, one)
    one.lines.push(ended)
    await this.#store(one)
  }

  async #store(one: { readonly batch: Batch; readonly lines: Ended[]; isStoring: boolean }): Promise<void> {
    if (one.isStoring) return
    one.isStoring = true
    try {
      while (one.lines.length > 0) await this.#storeSome(one.batch, one.lines.splice(0, STORE_LINES))
    } finally {
      one.isStoring = false
      if (one.lines.length === 0) this.#ended.delete(one.batch.id)
    }
  }

  async #storeSome(batch: Batch, lines: readonly Ended[]): Promise<void> {
    const { app, gatewayId, meter } = this.#options
    const records = lines.flatMap(({ ownRecord }) => ownRecord ?? [])
    const store = (): Promise<ReadonlySet<string>> => storeResults(app, { gatewayId, token: this.#token, batch }, lines)
    for (let tries = 1; ; tries += 1) {
      try {
        return await meter.settleWith(records, store)
      } catch (error) {
        if (tries < MAX_STORE_TRIES) continue
        // The leases end, and the lines are run again.
        await this.#drop(records)
        throw error
      }
    }
  }
}
