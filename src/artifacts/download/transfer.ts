/**
 * One attempt of a download. It resumes where the last one ended, if the server still has the same version (`If-Range`) or a
 * digest is checked afterwards.
 */
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { nameOf, whereOf, type Answer } from './http-get.ts'
import type { PartFile } from './part-file.ts'
import { refusalOf } from './refusal.ts'
import type { Address, AttemptTools, FileRequest, TextRequest } from './request.ts'
import { watchSilence, type SilenceWatch } from './silence.ts'

export async function transfer(tools: AttemptTools, request: FileRequest, part: PartFile): Promise<Result<void>> {
  if (part.note.isWhole) {
    request.onBytes(part.bytes, part.bytes)
    return ok(undefined)
  }
  const failure = await attempt(tools, request, part)
  return failure ?? ok(undefined)
}

export async function transferText(tools: AttemptTools, request: TextRequest): Promise<Result<string>> {
  const where = whereOf(request.url)
  const watch = watchSilence(tools.limits.stallMs, request.signal)
  try {
    const headers = { accept: request.accept }
    const response = await tools.getter.get(request.url, { ...request, headers, signal: watch.signal })
    if (!response.ok) return watch.isSilent() ? silent(request, watch) : response
    try {
      const refused = (await refusalOf(response.value)) ?? encodedAnswer(response.value, where)
      if (refused !== undefined) return refused
      const chunks: Buffer[] = []
      let bytes = 0
      for await (const chunk of readBody(response.value, watch)) {
        if ('why' in chunk) return interruptedFailure(request, chunk)
        bytes += chunk.length
        chunks.push(chunk)
        if (bytes > request.maxBytes) return tooLarge(where, request.maxBytes)
      }
      return ok(Buffer.concat(chunks).toString('utf8'))
    } finally {
      response.value.body.destroy()
    }
  } finally {
    watch.close()
  }
}

/** undefined: the download is complete. */
async function attempt(tools: AttemptTools, request: FileRequest, part: PartFile): Promise<Failure | undefined> {
  const { validator, safeBytes } = part.note
  await part.cutTo(request.digest !== null || validator !== null ? safeBytes : 0)
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
  request: FileRequest,
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
  // Some object stores ignore `If-Range`: bytes of another version must not follow the bytes that we have.
  if (answer.status === 206 && isAnotherVersion(part.note.validator, validatorOf(answer))) {
    await part.cutTo(0)
    return fail('bad_answer', { url: where, cause: 'the rest of another version', failureKind: 'unavailable' })
  }
  const refused = (await refusalOf(answer)) ?? encodedAnswer(answer, where)
  if (refused !== undefined) return refused
  // The server sent the whole file instead of the missing bytes: it has changed, or the server does not support ranges.
  if (answer.status === 200) await part.cutTo(0)
  const totalBytes = numberOf(answer.status === 200 ? headerOf(answer, 'content-length') : range?.[2])
  const sizeBytes = totalBytes ?? request.bytes
  if (sizeBytes !== null) {
    const tooMuch = wrongSize(request, sizeBytes) ?? (await request.room.need(sizeBytes - part.bytes))
    if (tooMuch !== undefined) return tooMuch
  }
  await part.begin(validatorOf(answer) ?? (answer.status === 206 ? part.note.validator : null))
  return writeBody(request, part, totalBytes, readBody(answer, watch))
}

async function writeBody(
  request: FileRequest,
  part: PartFile,
  totalBytes: number | null,
  body: AsyncIterable<Buffer | BodyEnd>,
): Promise<Failure | undefined> {
  request.onBytes(part.bytes, totalBytes)
  for await (const chunk of body) {
    if ('why' in chunk) return interruptedFailure(request, chunk)
    const refused = (await request.room.take(chunk.length)) ?? (await part.append(chunk))
    if (refused !== undefined) return refused
    if (part.bytes > Math.min(request.bytes ?? Infinity, request.maxBytes ?? Infinity))
      return wrongSize(request, part.bytes)
    request.onBytes(part.bytes, totalBytes)
  }
  if (totalBytes !== null && part.bytes < totalBytes) return interruptedFailure(request, { why: 'it ended early' })
  const refused = wrongSize(request, part.bytes)
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

function encodedAnswer(answer: Answer, where: string): Failure | undefined {
  const coding = headerOf(answer, 'content-encoding')
  if (coding === undefined || coding === 'identity') return undefined
  return fail('bad_answer', { url: where, cause: 'an encoding that was not requested' })
}

function interruptedFailure(address: Address, end: BodyEnd): Failure {
  return fail('download_interrupted', { url: whereOf(address.url), cause: end.why })
}

function silent(address: Address, watch: SilenceWatch): Failure {
  return fail('unreachable', { url: whereOf(address.url), cause: `no answer for ${watch.silenceMs / 1_000} s` })
}

function wrongSize({ url, bytes: expectedBytes, maxBytes }: FileRequest, bytes: number): Failure | undefined {
  const where = whereOf(url)
  if (maxBytes !== undefined && bytes > maxBytes) return tooLarge(where, maxBytes)
  if (expectedBytes === null || expectedBytes === bytes) return undefined
  return fail('wrong_size', { name: where, bytes, expectedBytes })
}

function tooLarge(where: string, maxBytes: number): Failure {
  return fail('bad_answer', { url: where, cause: `more than ${maxBytes} bytes` })
}

/** A tag and a date cannot be compared. */
function isAnotherVersion(previous: string | null, current: string | null): boolean {
  if (previous === null || current === null || previous.startsWith('"') !== current.startsWith('"')) return false
  return previous !== current
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
