/**
 * The files of the journal. A record is one line: eight hex digits of its checksum, a space, its text
 * (domain/settlement.ts). A line torn by a crash at the end of a file was never acknowledged and is skipped; a line in the
 * middle with a wrong checksum is reported as damaged, and reading continues after it.
 */
import { readdirSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { nanoUsdOf } from '../../base/money.ts'
import { noUnits } from '../../domain/inference.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import { readRecord } from '../../domain/settlement.ts'

const NEW_LINE = 10
const CHECK_CHARS = 9
const READ_BYTES = 1_048_576
/** The limit for a line. A record with both of its bodies is shorter. */
const MAX_LINE_BYTES = 16 * 1_048_576

export function segmentName(segment: number): string {
  return `${segment.toString().padStart(12, '0')}.log`
}

/** Segment numbers in the folder, oldest first. */
export function listSegments(dir: string): number[] {
  return readdirSync(dir)
    .flatMap((name) => /^(\d{12})\.log$/.exec(name)?.[1] ?? [])
    .map((digits) => Number.parseInt(digits, 10))
    .toSorted((a, b) => a - b)
}

export function withChecksum(text: string): string {
  return `${crc32(text).toString(16).padStart(8, '0')} ${text}\n`
}

/** Returns the text without its checksum. undefined: the checksum is wrong. The line has no newline at its end. */
export function checkedText(line: string): string | undefined {
  const text = line.slice(CHECK_CHARS)
  return line === withChecksum(text).slice(0, -1) ? text : undefined
}

export type SegmentLine =
  | { readonly kind: 'record'; readonly record: InferenceRecord; readonly bytes: number; readonly end: number }
  | { readonly kind: 'damaged'; readonly text: Buffer; readonly end: number }
  /** The text after the last newline. */
  | { readonly kind: 'torn'; readonly bytes: number; readonly end: number }

/** Reads from an offset, in bounded memory. */
export async function* readLines(path: string, from: number): AsyncGenerator<SegmentLine> {
  const file = await open(path, 'r')
  try {
    let carry: Buffer = Buffer.alloc(0)
    let start = from
    for (;;) {
      const chunk = Buffer.allocUnsafe(READ_BYTES)
      const { bytesRead } = await file.read(chunk, 0, READ_BYTES, start + carry.length)
      if (bytesRead === 0) break
      carry = Buffer.concat([carry, chunk.subarray(0, bytesRead)])
      let at = 0
      for (let end = carry.indexOf(NEW_LINE, at); end !== -1; end = carry.indexOf(NEW_LINE, at)) {
        const line = carry.subarray(at, end)
        at = end + 1
        yield lineOf(line, start + at)
      }
      carry = carry.subarray(at)
      start += at
      if (carry.length > MAX_LINE_BYTES) {
        start += carry.length
        yield { kind: 'damaged', text: carry, end: start }
        carry = Buffer.alloc(0)
      }
    }
    if (carry.length > 0) yield { kind: 'torn', bytes: carry.length, end: start + carry.length }
  } finally {
    await file.close()
  }
}

function lineOf(line: Buffer, end: number): SegmentLine {
  const text = checkedText(line.toString('utf8'))
  const record = text === undefined ? undefined : (readRecord(text) ?? readJson(text))
  return record === undefined
    ? { kind: 'damaged', text: line, end }
    : { kind: 'record', record, bytes: line.length + 1, end }
}

/** Reads the JSON form of records, which an upgraded server may still find. */
function readJson(text: string): InferenceRecord | undefined {
  try {
    const value: unknown = JSON.parse(text)
    const isRecord = typeof value === 'object' && value !== null && 'requestId' in value && 'cost' in value
    if (!isRecord) return undefined
    const record = value as InferenceRecord
    const units = { ...noUnits, ...record.units }
    return { ...record, units, cost: nanoUsdOf(BigInt(String(value.cost))) }
  } catch {
    return undefined
  }
}
