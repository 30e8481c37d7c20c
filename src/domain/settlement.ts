/**
 * Finished requests on their way to the database. While requests end, a batch collects a row of text for each and the
 * sums that are charged; settling it copies the rows into a table and charges the sums. So a request is written once, for
 * the journal and for the database, and what waits are bytes instead of objects, which the garbage collector would copy
 * again and again.
 *
 * A line of the journal has the key of the hold, the row, and the bodies if there are any, as fields of COPY.
 */
import { COPY_NULL, copyField, readCopyField } from '../base/copy-text.ts'
import { formatInstant, parseInstant } from '../base/instant.ts'
import { MAX_INT32 } from '../base/limits.ts'
import { nanoUsdOf } from '../base/money.ts'
import { noUnits } from './inference.ts'
import type { InferenceRecord } from './inference-record.ts'
import { RowBytes, rowsOf } from './row-bytes.ts'

/** The maximum of requests settled in one transaction. */
export const SETTLEMENT_RECORDS = 8_000
const SETTLEMENT_BODY_CHARS = 8_388_608
/** Fields of a line without bodies, and with them. */
const [PLAIN_FIELDS, ALL_FIELDS] = [19, 21]

/** Sums of a day, for one account, key and model. */
export interface DaySum {
  readonly account: string
  readonly day: string
  readonly api_key: string
  readonly model: string
  requests: number
  answered: number
  nano: bigint
  input: number
  cached: number
  output: number
}

/** The charge to one hold for the requests of a key and model. */
export interface Due {
  readonly hold: string | null
  readonly account: string
  readonly api_key: string
  readonly model: string
  nano: bigint
  requests: number
  /** The smallest request id, which becomes the key of the posting. */
  first: string
}

export type KnownCost = Pick<InferenceRecord, 'accountId' | 'cost'>

/** Plain data: workers send it to their server. */
export interface Settlement {
  /** Rows in the order in which the requests ended. */
  readonly rows: readonly Buffer[]
  /** For each row, the key of the hold that pays for it. */
  readonly holds: ReadonlyArray<string | null>
  /** Rows of bodies, for the requests that have any. */
  readonly bodies: readonly string[]
  readonly days: ReadonlyMap<string, DaySum>
  readonly dues: ReadonlyMap<string, Due>
}

/** Collects requests. Most share account, key, model and day with the previous one. */
export class SettlementBatch {
  readonly #rows = new RowBytes()
  readonly #holds: Array<string | null> = []
  readonly #bodies: string[] = []
  readonly #days = new Map<string, DaySum>()
  readonly #dues = new Map<string, Due>()
  #bodyChars = 0
  #last: InferenceRecord | undefined
  #at = ''
  /** The fields that requests of one key to one model share. */
  #shared = ''
  #day: DaySum | undefined
  #due: Due | undefined
  /** Rows by request id, filled only when a cost is asked for, and the number of pieces that are completely indexed. */
  readonly #rowsById = new Map<string, string>()
  #fullPieces = 0

  get settlement(): Settlement {
    return { rows: this.#rows.pieces(), holds: this.#holds, bodies: this.#bodies, days: this.#days, dues: this.#dues }
  }

  get requests(): number {
    return this.#holds.length
  }

  get isFull(): boolean {
    return this.requests >= SETTLEMENT_RECORDS || this.#bodyChars >= SETTLEMENT_BODY_CHARS
  }

  /** Returns the line for the journal. */
  add(record: InferenceRecord): string {
    const last = this.#last
    const isAlike = last !== undefined && sharesFields(record, last)
    if (!isAlike) this.#shared = sharedFields(record)
    if (record.at !== last?.at) this.#at = formatInstant(record.at)
    const at = this.#at
    if (!isAlike || this.#day === undefined || !at.startsWith(this.#day.day)) this.#day = this.#dayOf(record)
    if (!isAlike || record.holdKey !== last.holdKey) this.#due = undefined
    this.#last = record
    this.#count(this.#day, record)
    const row = rowOf(record, this.#shared, at)
    this.#rows.add(row)
    this.#holds.push(record.holdKey)
    const line = `${copyField(record.holdKey)}\t${row}`
    const { requestBody, responseBody } = record
    if (requestBody === null && responseBody === null) return line
    const bodies = `${copyField(requestBody)}\t${copyField(responseBody)}`
    this.#bodyChars += bodies.length
    this.#bodies.push(`${copyField(record.requestId)}\t${at}\t${bodies}`)
    return `${line}\t${bodies}`
  }

  costOf(requestId: string): KnownCost | undefined {
    if (this.#rowsById.size < this.requests) this.#indexRows()
    const row = this.#rowsById.get(copyField(requestId))
    const record = row === undefined ? undefined : readRecord(`${COPY_NULL}\t${row}`)
    return record === undefined ? undefined : { accountId: record.accountId, cost: record.cost }
  }

  #indexRows(): void {
    const pieces = this.#rows.pieces()
    for (const row of rowsOf(pieces.slice(this.#fullPieces))) this.#rowsById.set(requestIdOf(row), row)
    // The last piece may still grow.
    this.#fullPieces = pieces.length - 1
  }

  #count(day: DaySum, record: InferenceRecord): void {
    const { cost } = record
    const [input, output] = [inputOf(record), outputOf(record)]
    day.requests += 1
    if (input > 0 || output > 0) day.answered += 1
    day.input += input
    day.cached += record.units.cachedTokens
    day.output += output
    if (cost === 0n) return
    day.nano += cost
    const due = (this.#due ??= this.#dueOf(record))
    due.nano += cost
    due.requests += 1
    if (record.requestId < due.first) due.first = record.requestId
  }

  #dayOf({ accountId: account, apiKeyId, model }: InferenceRecord): DaySum {
    const day = this.#at.slice(0, 10)
    const name = `${account} ${day} ${apiKeyId} ${model}`
    const existingSum = this.#days.get(name)
    if (existingSum !== undefined) return existingSum
    const nothing = { requests: 0, answered: 0, nano: 0n, input: 0, cached: 0, output: 0 }
    const sum: DaySum = { account, day, api_key: apiKeyId, model, ...nothing }
    this.#days.set(name, sum)
    return sum
  }

  #dueOf({ requestId, accountId: account, apiKeyId, model, holdKey: hold }: InferenceRecord): Due {
    const name = `${hold} ${account} ${apiKeyId} ${model}`
    const existingDue = this.#dues.get(name)
    if (existingDue !== undefined) return existingDue
    const due: Due = { hold, account, api_key: apiKeyId, model, nano: 0n, requests: 0, first: requestId }
    this.#dues.set(name, due)
    return due
  }
}

/** Settles requests that were read from a journal. */
export async function settleRecords(
  treasury: { settle(settlement: Settlement): Promise<void> },
  records: readonly InferenceRecord[],
): Promise<void> {
  for (const settlement of settlementsOf(records)) await treasury.settle(settlement)
}

/** Sorts by id and removes duplicates, so that two settlements of the same requests cannot deadlock. */
function* settlementsOf(records: readonly InferenceRecord[]): Generator<Settlement> {
  let batch = new SettlementBatch()
  const sorted = records.toSorted((a, b) => (a.requestId < b.requestId ? -1 : a.requestId > b.requestId ? 1 : 0))
  for (const [place, record] of sorted.entries()) {
    if (record.requestId === sorted[place - 1]?.requestId) continue
    if (batch.isFull) {
      yield batch.settlement
      batch = new SettlementBatch()
    }
    batch.add(record)
  }
  if (records.length > 0) yield batch.settlement
}

/** The records of a batch, with the bodies of those that have them. */
export function recordsOf({ rows, holds, bodies }: Settlement): InferenceRecord[] {
  const bodiesById = new Map(
    bodies.map((row) => [row.slice(0, row.indexOf('\t')), row.split('\t').slice(2).join('\t')]),
  )
  return rowsOf(rows).map((row, place) => {
    const body = bodiesById.get(requestIdOf(row))
    const line = `${copyField(holds[place] ?? null)}\t${row}`
    const record = readRecord(body === undefined ? line : `${line}\t${body}`)
    if (record === undefined) throw new Error(`not the row of a request: ${row}`)
    return record
  })
}

/** Reads a line that `add` returned. All input and output units are returned as tokens. undefined: not such a line. */
export function readRecord(line: string): InferenceRecord | undefined {
  const fields = line.split('\t').map(readCopyField)
  if (fields.length !== PLAIN_FIELDS && fields.length !== ALL_FIELDS) return undefined
  const at = parseInstant(fields[7] ?? '')
  const cost = fields[15] ?? ''
  if (at === undefined || !/^\d+$/.test(cost)) return undefined
  const text = (place: number): string => fields[place] ?? ''
  const number = (place: number): number => Number(fields[place])
  return {
    holdKey: fields[0] ?? null,
    requestId: text(1),
    accountId: text(2),
    apiKeyId: text(3),
    operation: text(4),
    model: text(5),
    deployment: fields[6] ?? null,
    at,
    status: number(8),
    outcome: text(9) as InferenceRecord['outcome'],
    reason: fields[10] ?? null,
    streamed: fields[11] === 'true',
    units: { ...noUnits, inputTokens: number(12), cachedTokens: number(13), outputTokens: number(14) },
    cost: nanoUsdOf(BigInt(cost)),
    firstByteMs: fields[16] === null ? null : number(16),
    totalMs: number(17),
    traceId: text(18),
    requestBody: fields[19] ?? null,
    responseBody: fields[20] ?? null,
  }
}

function requestIdOf(row: string): string {
  return row.slice(0, row.indexOf('\t'))
}

function rowOf(record: InferenceRecord, shared: string, at: string): string {
  const { firstByteMs, cost } = record
  return (
    `${copyField(record.requestId)}\t${shared}\t${at}\t${record.status}\t${record.outcome}\t` +
    `${copyField(record.reason)}\t${record.streamed}\t${inputOf(record)}\t${record.units.cachedTokens}\t` +
    `${outputOf(record)}\t${cost}\t${firstByteMs === null ? COPY_NULL : wholeMs(firstByteMs)}\t` +
    `${wholeMs(record.totalMs)}\t${copyField(record.traceId)}`
  )
}

function sharesFields(one: InferenceRecord, other: InferenceRecord): boolean {
  return (
    one.accountId === other.accountId &&
    one.apiKeyId === other.apiKeyId &&
    one.operation === other.operation &&
    one.model === other.model &&
    one.deployment === other.deployment
  )
}

function sharedFields({ accountId, apiKeyId, operation, model, deployment }: InferenceRecord): string {
  return [accountId, apiKeyId, operation, model, deployment].map(copyField).join('\t')
}

/** Input units are tokens, characters or milliseconds of sound; output units are tokens or pixels × steps. */
function inputOf({ units }: InferenceRecord): number {
  return units.inputTokens + units.characters + units.soundMs
}

function outputOf({ units }: InferenceRecord): number {
  return units.outputTokens + units.pixelSteps
}

function wholeMs(ms: number): number {
  return Math.min(Math.max(0, Math.round(ms)), MAX_INT32)
}
