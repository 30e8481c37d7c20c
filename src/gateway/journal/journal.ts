/**
 * Finished requests, on the gateway's own disk until they are settled in the database. A client sees the end of its
 * answer only after its record is in the file: records that finish in one turn of the event loop are written by one
 * system call, then their continuations run. So a kill -9 loses no record whose end a client has seen. fdatasync follows
 * in groups, off the event loop, and guards against a crash of the machine.
 *
 * Records are settled in the order they were appended, so one mark tells how far. A lost or old mark only means that some
 * records are sent again, and each is counted once.
 */
import * as fs from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import { isBehind, JournalMark, type Place } from './journal-mark.ts'
import { listSegments, readLines, segmentName, withChecksum } from './journal-segment.ts'

const SEGMENT_BYTES = 16 * 1_048_576
/** A written record is synced to disk within this time, if the disk keeps up. */
const SYNC_WITHIN_MS = 50
/** The pause between two attempts on a disk that refuses writes. */
const RETRY_MS = 250
const REPLAY_RECORDS = 1_000
const REPLAY_BYTES = 8 * 1_048_576
/** A full disk with room for this much is tried again. */
const PROBE_BYTES = 65_536
/** With less room, the next burst of records may not fit. */
const MIN_FREE_BYTES = 1_048_576
const PROBE_NAME = 'probe'

const fdatasync = promisify(fs.fdatasync)
const fsync = promisify(fs.fsync)
const close = promisify(fs.close)

export interface JournalLog {
  warn(facts: Readonly<Record<string, unknown>>, message: string): void
  error(facts: Readonly<Record<string, unknown>>, message: string): void
}

export interface JournalOptions {
  /** The journal's own folder, used by no other process. */
  readonly dir: string
  readonly log: JournalLog
  readonly segmentBytes?: number
  /** Replaced in tests of a full disk. */
  readonly write?: (file: number, bytes: Uint8Array, offset: number) => number
}

/** A record that is not settled yet. */
export interface JournalEntry {
  readonly requestId: string
  readonly bytes: number
}

interface Appended extends JournalEntry {
  line: string
  /** undefined once it has run: it refers to the whole request, which must not live until it is settled. */
  done: (() => void) | undefined
  /** The number of the file it was written to; 0: not written yet. */
  segment: number
  end: number
}

export class Journal {
  readonly #dir: string
  readonly #log: JournalLog
  readonly #segmentBytes: number
  readonly #write: NonNullable<JournalOptions['write']>
  #pending: Appended[] = []
  #flushing: NodeJS.Immediate | undefined
  #retry: NodeJS.Timeout | undefined
  #isFailing = false
  #isClosed = false
  /** undefined until the first write to the current segment. */
  #file: number | undefined
  #segment: number
  #size = 0
  /** Full segments, to be synced and closed. */
  #retired: number[] = []
  #isDirty = false
  #isFolderDirty = false
  #syncTimer: NodeJS.Timeout | undefined
  #syncing: Promise<void> | undefined
  #syncNext: Promise<void> | undefined
  /** Earlier segments that still exist, oldest first. */
  #full: Place[] = []
  readonly #mark: JournalMark
  readonly #old: readonly number[]

  constructor(options: JournalOptions) {
    this.#dir = options.dir
    this.#log = options.log
    this.#segmentBytes = options.segmentBytes ?? SEGMENT_BYTES
    this.#write = options.write ?? ((file, bytes, offset) => fs.writeSync(file, bytes, offset))
    fs.mkdirSync(this.#dir, { recursive: true, mode: 0o700 })
    this.#mark = new JournalMark(this.#dir, (facts, message) => this.#log.warn(facts, message))
    this.#old = listSegments(this.#dir)
    // Numbers are never reused, or an old mark would point into new records.
    this.#segment = Math.max(this.#mark.place.segment, ...this.#old) + 1
  }

  /** The disk does not accept records, for example because it is full. No request that needs a record may start. */
  get isFailing(): boolean {
    return this.#isFailing
  }

  /** For readiness. Detects a full disk before the first record that does not fit. */
  async state(): Promise<'ok' | 'cannot be written' | 'disk full'> {
    if (this.#isFailing) return 'cannot be written'
    try {
      const { bavail, bsize } = await fs.promises.statfs(this.#dir)
      return bavail * bsize < MIN_FREE_BYTES ? 'disk full' : 'ok'
    } catch {
      return 'cannot be written'
    }
  }

  /** `done` runs once the record is written, together with all others of this turn of the event loop. */
  append(requestId: string, text: string, done: () => void): JournalEntry {
    if (this.#isClosed) throw new Error('the journal is closed')
    const line = withChecksum(text)
    const entry: Appended = { requestId, bytes: Buffer.byteLength(line), line, done, segment: 0, end: 0 }
    this.#pending.push(entry)
    if (!this.#isFailing) this.#flushing ??= setImmediate(() => this.#flush())
    return entry
  }

  /** Resolves when everything appended before is on disk, or the disk has failed (`isFailing`). */
  async sync(): Promise<void> {
    if (!this.#isFailing) this.#flush()
    if (this.#syncing === undefined) {
      return this.#isDirty || this.#retired.length > 0 ? this.#startSync() : undefined
    }
    // A sync is running for earlier writes. All callers that come meanwhile share the next one.
    this.#syncNext ??= this.#syncing.then(() => {
      this.#syncNext = undefined
      return this.#startSync()
    })
    return this.#syncNext
  }

  /** This record and all before it are settled. */
  settle(entry: JournalEntry): void {
    const { segment, end } = entry as Appended
    if (segment === 0) this.#dropUnwritten(entry)
    else this.#moveMark({ segment, end })
  }

  /**
   * Yields records of earlier runs that may not be settled, oldest first. A batch counts as settled when the next one
   * is requested.
   */
  async *replay(): AsyncGenerator<InferenceRecord[]> {
    for (const segment of this.#old) {
      const path = join(this.#dir, segmentName(segment))
      const settled = this.#mark.place
      if (segment >= settled.segment) {
        let end = segment === settled.segment ? settled.end : 0
        let batch: InferenceRecord[] = []
        let bytes = 0
        for await (const line of readLines(path, end)) {
          end = line.end
          if (line.kind === 'torn') {
            this.#log.warn({ path, bytes: line.bytes }, 'a crash cut off the last line of the journal')
            continue
          }
          if (line.kind === 'damaged') {
            this.#keepDamaged(path, line.text, line.end)
            continue
          }
          batch.push(line.record)
          bytes += line.bytes
          if (batch.length < REPLAY_RECORDS && bytes < REPLAY_BYTES) continue
          yield batch
          this.#moveMark({ segment, end })
          batch = []
          bytes = 0
        }
        if (batch.length > 0) yield batch
        this.#moveMark({ segment, end })
      }
      await this.#remove(segment)
    }
  }

  /** Writes the remaining records and closes the files. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#flush()
    const lost = this.#pending.length
    if (lost > 0) this.#log.error({ records: lost }, 'closing the journal with records that could not be written')
    await this.sync()
    clearTimeout(this.#retry)
    clearTimeout(this.#syncTimer)
    await this.#mark.close()
    if (this.#file !== undefined) await close(this.#file)
    this.#file = undefined
  }

  #flush(): void {
    clearImmediate(this.#flushing)
    this.#flushing = undefined
    const group = this.#pending
    if (group.length === 0) return
    try {
      this.#writeGroup(group)
    } catch (error) {
      this.#fail(error, 'could not write to the journal; refusing new requests until it works again')
      return
    }
    this.#isFailing = false
    this.#pending = []
    if (this.#size >= this.#segmentBytes) this.#retire()
    this.#syncTimer ??= setTimeout(() => {
      this.#syncTimer = undefined
      void this.sync()
    }, SYNC_WITHIN_MS)
    for (const entry of group) this.#runDone(entry)
  }

  #writeGroup(group: readonly Appended[]): void {
    this.#file ??= this.#openSegment()
    const file = this.#file
    const bytes = Buffer.from(group.length === 1 ? (group[0]?.line ?? '') : group.map((entry) => entry.line).join(''))
    try {
      for (let written = 0; written < bytes.length;) written += this.#write(file, bytes, written)
    } catch (error) {
      // A partial write is removed, or the next line would continue it.
      try {
        fs.ftruncateSync(file, this.#size)
      } catch {
        this.#retire()
      }
      throw error
    }
    this.#isDirty = true
    for (const entry of group) {
      this.#size += entry.bytes
      entry.segment = this.#segment
      entry.end = this.#size
      entry.line = ''
    }
  }

  #openSegment(): number {
    const file = fs.openSync(join(this.#dir, segmentName(this.#segment)), 'ax', 0o600)
    this.#isFolderDirty = true
    return file
  }

  /** Lets the next record start a new segment. */
  #retire(): void {
    if (this.#file === undefined) return
    this.#retired.push(this.#file)
    this.#full.push({ segment: this.#segment, end: this.#size })
    this.#file = undefined
    this.#segment += 1
    this.#size = 0
  }

  #fail(error: unknown, message: string): void {
    if (!this.#isFailing) this.#log.error({ err: error, path: this.#dir }, message)
    this.#isFailing = true
    if (this.#isClosed) return
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined
      this.#tryAgain()
    }, RETRY_MS)
  }

  /** Tests the disk with a temporary file when there is nothing to write. */
  #tryAgain(): void {
    if (this.#pending.length > 0) return this.#flush()
    const path = join(this.#dir, PROBE_NAME)
    try {
      const file = fs.openSync(path, 'w', 0o600)
      try {
        for (let written = 0; written < PROBE_BYTES;) written += this.#write(file, Buffer.alloc(PROBE_BYTES), written)
        fs.fdatasyncSync(file)
      } finally {
        fs.closeSync(file)
        fs.rmSync(path, { force: true })
      }
      this.#isFailing = false
    } catch (error) {
      this.#fail(error, 'the journal disk accepts no writes')
    }
  }

  /** A continuation that throws is a bug of its caller and must not stop the others. */
  #runDone(entry: Appended): void {
    const { done } = entry
    entry.done = undefined
    try {
      done?.()
    } catch (error) {
      this.#log.error({ err: error, requestId: entry.requestId }, 'the continuation of a journal record failed')
    }
  }

  #startSync(): Promise<void> {
    clearTimeout(this.#syncTimer)
    this.#syncTimer = undefined
    this.#syncing = this.#syncNow().finally(() => {
      this.#syncing = undefined
    })
    return this.#syncing
  }

  async #syncNow(): Promise<void> {
    const retired = this.#retired
    this.#retired = []
    this.#isDirty = false
    try {
      if (this.#isFolderDirty) {
        this.#isFolderDirty = false
        await this.#syncFolder()
      }
      for (const file of this.#file === undefined ? retired : [...retired, this.#file]) await fdatasync(file)
    } catch (error) {
      // A second fdatasync does not retry pages that the kernel has dropped, so a new file continues the journal.
      this.#retire()
      this.#fail(error, 'could not sync the journal; refusing new requests until it works again')
    } finally {
      for (const file of retired) await close(file)
    }
  }

  async #syncFolder(): Promise<void> {
    const folder = fs.openSync(this.#dir, 'r')
    try {
      await fsync(folder)
    } finally {
      await close(folder)
    }
  }

  /** Drops records that the disk did not accept but that are settled nevertheless. */
  #dropUnwritten(last: JournalEntry): void {
    if (this.#size > 0) this.#moveMark({ segment: this.#segment, end: this.#size })
    const settled = this.#pending.findIndex((entry) => entry === last) + 1
    for (const entry of this.#pending.splice(0, settled)) this.#runDone(entry)
  }

  #moveMark(to: Place): void {
    this.#mark.move(to)
    for (let oldest = this.#full[0]; oldest !== undefined && !isBehind(to, oldest); oldest = this.#full[0]) {
      this.#full.shift()
      void this.#remove(oldest.segment)
    }
  }

  /** Never rejects, since the mark skips a segment that stays. */
  async #remove(segment: number): Promise<void> {
    const path = join(this.#dir, segmentName(segment))
    try {
      await fs.promises.rm(path, { force: true })
    } catch (error) {
      this.#log.warn({ err: error, path }, 'could not delete a settled journal segment')
    }
  }

  #keepDamaged(path: string, text: Buffer, end: number): void {
    const copy = `${path}.damaged`
    this.#log.error({ path, end, bytes: text.length, copy }, 'a journal line is damaged; a request may be unbilled')
    fs.appendFileSync(copy, Buffer.concat([text, Buffer.from('\n')]), { mode: 0o600 })
  }
}
