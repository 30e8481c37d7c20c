/**
 * Finished requests on their way to the database. While requests end, a batch collects one line of text for each and the
 * sums that are charged; settling it copies the lines into a table and charges the sums. So a request is written once,
 * for the journal and for the database, and what waits are a few large texts instead of many objects, which the garbage
 * collector would copy again and again.
 *
 * A line has the key of the hold, the columns of the table, and the bodies if there are any, as fields of COPY.
 */
import { COPY_NULL, copyField, readCopyField } from '../base/copy-text.ts'
import { formatInstant, parseInstant } from '../base/instant.ts'
import { MAX_INT32 } from '../base/limits.ts'
import { nanoUsdOf } from '../base/money.ts'
import { noUnits } from './inference.ts'
import type { InferenceRecord, Treasury } from './purse.ts'

/** The most that is settled in one transaction. */
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

/** What one hold is charged for the requests of a key and model. */
export interface Due {
  readonly hold: string | null
  readonly account: string
  readonly api_key: string
  readonly model: string
  nano: bigint
  requests: number
  /** The smallest id: the key of the posting. */
  first: string
}

export type KnownCost = Pick<InferenceRecord, 'accountId' | 'cost'>

/** Plain data: workers send it to their server. */
export interface Settlement {
  /** In the order in which the requests ended, without bodies. */
  readonly lines: string[]
  /** Rows of the bodies, where there are any. */
  readonly bodies: string[]
  readonly days: Map<string, DaySum>
  readonly dues: Map<string, Due>
}

/** Collects requests. Most have the account, key, model and day of the one before. */
export class SettlementBatch {
  readonly settlement: Settlement = { lines: [], bodies: [], days: new Map(), dues: new Map() }
  #bodyChars = 0
  #last: InferenceRecord | undefined
  #at = ''
  /** The fields that requests of one key to one model share. */
  #shared = ''
  #day: DaySum | undefined
  #due: Due | undefined
  /** Lines by the id of their request, as far as somebody has asked. */
  #lines: Map<string, string> | undefined

  get isFull(): boolean {
    return this.settlement.lines.length >= SETTLEMENT_RECORDS || this.#bodyChars >= SETTLEMENT_BODY_CHARS
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
    const line = lineOf(record, this.#shared, at)
    this.settlement.lines.push(line)
    const { requestBody, responseBody } = record
    if (requestBody === null && responseBody === null) return line
    const bodies = `${copyField(requestBody)}\t${copyField(responseBody)}`
    this.#bodyChars += bodies.length
    this.settlement.bodies.push(`${copyField(record.requestId)}\t${at}\t${bodies}`)
    return `${line}\t${bodies}`
  }

  costOf(requestId: string): KnownCost | undefined {
    const { lines } = this.settlement
    const known = (this.#lines ??= new Map())
    for (let place = known.size; place < lines.length; place += 1) {
      const line = lines[place] ?? ''
      known.set(requestIdOf(line), line)
    }
    const line = known.get(requestId)
    const record = line === undefined ? undefined : readRecord(line)
    return record === undefined ? undefined : { accountId: record.accountId, cost: record.cost }
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
    const known = this.settlement.days.get(name)
    if (known !== undefined) return known
    const nothing = { requests: 0, answered: 0, nano: 0n, input: 0, cached: 0, output: 0 }
    const sum: DaySum = { account, day, api_key: apiKeyId, model, ...nothing }
    this.settlement.days.set(name, sum)
    return sum
  }

  #dueOf({ requestId, accountId: account, apiKeyId, model, holdKey: hold }: InferenceRecord): Due {
    const name = `${hold} ${account} ${apiKeyId} ${model}`
    const known = this.settlement.dues.get(name)
    if (known !== undefined) return known
    const due: Due = { hold, account, api_key: apiKeyId, model, nano: 0n, requests: 0, first: requestId }
    this.settlement.dues.set(name, due)
    return due
  }
}

/** Settles what was read from a journal. */
export async function settleRecords(
  treasury: Pick<Treasury, 'settle'>,
  records: readonly InferenceRecord[],
): Promise<void> {
  for (const settlement of settlementsOf(records)) await treasury.settle(settlement)
}

/** In the order of their ids, each once: two settlements of the same requests wait for each other. */
export function* settlementsOf(records: readonly InferenceRecord[]): Generator<Settlement> {
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
  if (batch.settlement.lines.length > 0) yield batch.settlement
}

/** The columns of the table, for COPY. */
export function rowOf(line: string): string {
  return line.slice(line.indexOf('\t') + 1)
}

/** The records of a batch, with the bodies of those that have them. */
export function recordsOf({ lines, bodies }: Settlement): InferenceRecord[] {
  const bodiesById = new Map(
    bodies.map((row) => [row.slice(0, row.indexOf('\t')), row.split('\t').slice(2).join('\t')]),
  )
  return lines.flatMap((line) => {
    const body = bodiesById.get(requestIdOf(line))
    return readRecord(body === undefined ? line : `${line}\t${body}`) ?? []
  })
}

/** Reads what `add` returned; units in and out are all tokens then. undefined: it is not such a line. */
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

function requestIdOf(line: string): string {
  const start = line.indexOf('\t') + 1
  return line.slice(start, line.indexOf('\t', start))
}

function lineOf(record: InferenceRecord, shared: string, at: string): string {
  const { holdKey, firstByteMs, cost } = record
  return (
    `${copyField(holdKey)}\t${copyField(record.requestId)}\t${shared}\t${at}\t${record.status}\t${record.outcome}\t` +
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

/** Tokens and characters are units in; tokens and pixels × steps are units out. */
function inputOf({ units }: InferenceRecord): number {
  return units.inputTokens + units.characters
}

function outputOf({ units }: InferenceRecord): number {
  return units.outputTokens + units.pixelSteps
}

function wholeMs(ms: number): number {
  return Math.min(Math.max(0, Math.round(ms)), MAX_INT32)
}
