/**
 * Downloads one URL into one file, across any number of broken connections. An attempt resumes where the last one
 * ended, if the server still has the same version (`If-Range`) or a digest is checked afterwards. There is an idle
 * timeout but no overall timeout, since models may be of any size.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { type Room } from './disk-budget.ts'
import { nameOf, whereOf, type Answer, type Getter, type GetOptions } from './http-get.ts'
import { dropPart, openPart, type PartFile } from './part-file.ts'
import { refusalOf } from './refusal.ts'
import { watchSilence, type SilenceWatch } from './silence.ts'

export interface DownloadLimits {
  /** The idle timeout of an attempt. */
  readonly stallMs: number
  /** The delay after the first attempt without progress; it doubles each time, up to the longest. */
  readonly retryMs: number
  readonly maxRetryMs: number
}

/** Consecutive attempts without progress. */
const MAX_IDLE_ATTEMPTS = 5
const MAX_ATTEMPTS = 100

export interface Tools {
  readonly getter: Getter
  readonly limits: DownloadLimits
}

export interface Address {
  readonly url: string
  /** An origin from our own settings: exempt from the guard. */
  readonly trustedOrigin: string | null
  readonly authorization: GetOptions['authorization']
}

export interface DownloadRequest extends Address {
  readonly partPath: string
  /** null: not known before. */
  readonly bytes: number | null
  /** Whether a digest is checked afterwards, so that resuming without a validator is safe. */
  readonly isChecked: boolean
  readonly room: Room
  readonly signal: AbortSignal
  readonly onBytes: (doneBytes: number, totalBytes: number | null) => void
}

export interface Downloaded {
  readonly bytes: number
  /** Whether it was resumed. */
  readonly isContinued: boolean
}

export async function download(tools: Tools, request: DownloadRequest): Promise<Result<Downloaded>> {
  const part = await openPart(request.partPath)
  try {
    if (part.note.isWhole) {
      request.onBytes(part.bytes, part.bytes)
      return ok({ bytes: part.bytes, isContinued: true })
    }
    let isContinued = part.bytes > 0
    let furthest = part.bytes
    for (let attempts = 1, idle = 0; ; attempts += 1) {
      const failure = await attempt(tools, request, part)
      if (failure === undefined) return ok({ bytes: part.bytes, isContinued })
      if (failure.reason === 'wrong_size' || failure.kind === 'no_capacity') await dropPart(request.partPath)
      if (failure.kind !== 'unavailable') return failure
      if (request.signal.aborted) return cancelled()
      idle = part.bytes > furthest ? 0 : idle + 1
      furthest = Math.max(furthest, part.bytes)
      isContinued ||= part.bytes > 0
      if (idle >= MAX_IDLE_ATTEMPTS || attempts >= MAX_ATTEMPTS) return failure
      if (!(await pause(tools.limits, idle, failure, request.signal))) return cancelled()
    }
  } finally {
    await part.close()
  }
}

/** A small JSON document, with the same retries. */
export async function downloadJson(
  tools: Tools,
  request: Address & { readonly accept: string; readonly limitBytes: number; readonly signal: AbortSignal },
): Promise<Result<unknown>> {
  for (let attempts = 1; ; attempts += 1) {
    const answer = await readJson(tools, request)
    if (request.signal.aborted) return cancelled()
    if (answer.ok || answer.kind !== 'unavailable' || attempts >= MAX_IDLE_ATTEMPTS) return answer
    if (!(await pause(tools.limits, attempts, answer, request.signal))) return cancelled()
  }
}

export function cancelled(): Failure {
  return fail('cancelled')
}

/** undefined: complete. */
async function attempt(tools: Tools, request: DownloadRequest, part: PartFile): Promise<Failure | undefined> {
  const { validator, safeBytes } = part.note
  await part.cutTo(request.isChecked || validator !== null ? safeBytes : 0)
  const headers = {
    ...(part.bytes > 0 ? { range: `bytes=${part.bytes}-` } : {}),
    ...(part.bytes > 0 && validator !== null ? { 'if-range': validator } : {}),
  }
  const watch = watchSilence(tools.limits.stallMs, request.signal)
  try {
    const response = await tools.getter.get(request.url, { ...request, headers, signal: watch.signal })
    if (!response.ok) return watch.isSilent() ? silent(request, watch) : response
    try {
      return await receive(request, part, response.value, watch)
    } finally {
      // No effect on a body that was read to its end.
      response.value.body.destroy()
      await part.checkpoint()
    }
  } finally {
    watch.close()
  }
}

async function receive(
  request: DownloadRequest,
  part: PartFile,
  answer: Answer,
  watch: SilenceWatch,
): Promise<Failure | undefined> {
  const where = whereOf(request.url)
  const range = /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(headerOf(answer, 'content-range') ?? '')
  if (answer.status === 416 && part.bytes > 0 && numberOf(range?.[2]) === part.bytes) {
    await part.finish()
    return undefined
  }
  if (answer.status === 416 || (answer.status === 206 && numberOf(range?.[1]) !== part.bytes)) {
    await part.cutTo(0)
    return fail('bad_answer', { url: where, cause: 'a range that was not requested', failureKind: 'unavailable' })
  }
  // Some object stores ignore `If-Range`: the rest of another version must not follow what we have of the old one.
  if (answer.status === 206 && isAnotherVersion(part.note.validator, validatorOf(answer))) {
    await part.cutTo(0)
    return fail('bad_answer', { url: where, cause: 'the rest of another version', failureKind: 'unavailable' })
  }
  const refused = (await refusalOf(answer)) ?? encodedAnswer(answer, where)
  if (refused !== undefined) return refused
  // The whole file instead of the rest: it has changed, or the server does not support ranges.
  if (answer.status === 200) await part.cutTo(0)
  const totalBytes = numberOf(answer.status === 200 ? headerOf(answer, 'content-length') : range?.[2])
  if (totalBytes !== null) {
    const tooMuch = wrongSize(where, request.bytes, totalBytes) ?? (await request.room.need(totalBytes - part.bytes))
    if (tooMuch !== undefined) return tooMuch
  }
  await part.begin(validatorOf(answer) ?? (answer.status === 206 ? part.note.validator : null))
  return writeBody(request, part, totalBytes, readBody(answer, watch))
}

async function writeBody(
  request: DownloadRequest,
  part: PartFile,
  totalBytes: number | null,
  body: AsyncIterable<Buffer | BodyEnd>,
): Promise<Failure | undefined> {
  const where = whereOf(request.url)
  request.onBytes(part.bytes, totalBytes)
  for await (const chunk of body) {
    if ('why' in chunk) return brokenOff(request, chunk)
    const refused = (await request.room.take(chunk.length)) ?? (await part.append(chunk))
    if (refused !== undefined) return refused
    if (request.bytes !== null && part.bytes > request.bytes) return wrongSize(where, request.bytes, part.bytes)
    request.onBytes(part.bytes, totalBytes)
  }
  if (totalBytes !== null && part.bytes < totalBytes) return brokenOff(request, { why: 'it ended early' })
  const refused = wrongSize(where, request.bytes, part.bytes)
  if (refused === undefined) await part.finish()
  return refused
}

/** Ends a body that was interrupted. */
interface BodyEnd {
  readonly why: string
}

/** Turns network errors into values, so that disk errors and bugs stay exceptions. */
async function* readBody(answer: Answer, watch: SilenceWatch): AsyncGenerator<Buffer | BodyEnd> {
  const chunks = (answer.body as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  for (;;) {
    let next: IteratorResult<Buffer>
    try {
      next = await chunks.next()
    } catch (error) {
      yield { why: watch.isSilent() ? `no data for ${watch.silenceMs / 1_000} s` : nameOf(error) }
      return
    }
    watch.touch()
    if (next.done === true) return
    yield next.value
  }
}

async function readJson(tools: Tools, request: Parameters<typeof downloadJson>[1]): Promise<Result<unknown>> {
  const where = whereOf(request.url)
  const watch = watchSilence(tools.limits.stallMs, request.signal)
  try {
    const headers = { accept: request.accept }
    const response = await tools.getter.get(request.url, { ...request, headers, signal: watch.signal })
    if (!response.ok) return watch.isSilent() ? silent(request, watch) : response
    const refused = (await refusalOf(response.value)) ?? encodedAnswer(response.value, where)
    if (refused !== undefined) {
      response.value.body.destroy()
      return refused
    }
    const chunks: Buffer[] = []
    let bytes = 0
    for await (const chunk of readBody(response.value, watch)) {
      if ('why' in chunk) return brokenOff(request, chunk)
      bytes += chunk.length
      chunks.push(chunk)
      if (bytes > request.limitBytes) {
        response.value.body.destroy()
        return fail('bad_answer', { url: where, cause: `more than ${request.limitBytes} bytes` })
      }
    }
    return parseJson(Buffer.concat(chunks).toString('utf8'), where)
  } finally {
    watch.close()
  }
}

function parseJson(text: string, where: string): Result<unknown> {
  try {
    return ok(JSON.parse(text) as unknown)
  } catch {
    return fail('bad_answer', { url: where, cause: 'a body that is not JSON' })
  }
}

function encodedAnswer(answer: Answer, where: string): Failure | undefined {
  const coding = headerOf(answer, 'content-encoding')
  if (coding === undefined || coding === 'identity') return undefined
  return fail('bad_answer', { url: where, cause: 'an encoding that was not requested' })
}

function brokenOff(address: Address, end: BodyEnd): Failure {
  return fail('download_interrupted', { url: whereOf(address.url), cause: end.why })
}

function silent(address: Address, watch: SilenceWatch): Failure {
  return fail('unreachable', { url: whereOf(address.url), cause: `no answer for ${watch.silenceMs / 1_000} s` })
}

function wrongSize(where: string, expectedBytes: number | null, bytes: number): Failure | undefined {
  if (expectedBytes === null || expectedBytes === bytes) return undefined
  return fail('wrong_size', { name: where, bytes, expectedBytes })
}

/** A tag and a date cannot be compared. */
function isAnotherVersion(before: string | null, now: string | null): boolean {
  if (before === null || now === null || before.startsWith('"') !== now.startsWith('"')) return false
  return before !== now
}

/** Strong tags only: a weak one does not guarantee the same bytes. */
function validatorOf(answer: Answer): string | null {
  const tag = headerOf(answer, 'etag')
  if (tag !== undefined && !tag.startsWith('W/')) return tag
  return headerOf(answer, 'last-modified') ?? null
}

function headerOf(answer: Answer, name: string): string | undefined {
  const value = answer.headers[name]
  return typeof value === 'string' ? value : undefined
}

function numberOf(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null
}

/** Backs off after each attempt without progress, at least as long as the server asks. false: cancelled. */
async function pause(limits: DownloadLimits, idle: number, failure: Failure, signal: AbortSignal): Promise<boolean> {
  const ownMs = Math.min(limits.retryMs * 2 ** Math.max(idle - 1, 0), limits.maxRetryMs)
  return delay(Math.max(ownMs, failure.retryAfterMs ?? 0), true, { signal }).catch(() => false)
}
