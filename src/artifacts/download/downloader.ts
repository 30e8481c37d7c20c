/**
 * Downloads a URL into a file, across any number of broken connections. The file gets its name when it is complete,
 * verified and on the disk. Until then `<target>.part` holds the bytes so far, and the next call resumes there, even in
 * another process. Every connection passes the guard for outbound calls, and every byte counts against a disk budget.
 * There is an idle timeout but no overall timeout, since models may be of any size.
 */
import { once } from 'node:events'
import fs from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { Resolve } from '../../base/net/outbound.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { unlessGone } from './disk-budget.ts'
import { hashFile } from './file-digest.ts'
import { makeGetter, whereOf } from './http-get.ts'
import { dropPart, openPart } from './part-file.ts'
import type { Address, AttemptTools, DownloadLimits, FileRequest, TextRequest } from './request.ts'
import { transfer, transferText } from './transfer.ts'

export interface DownloaderOptions {
  /** Allows private addresses and plain `http:`. */
  readonly allowPrivate: boolean
  readonly resolve?: Resolve
  readonly limits?: Partial<DownloadLimits>
}

export interface Download {
  readonly bytes: number
  /** Whether some of the bytes came from an earlier attempt. */
  readonly isContinued: boolean
}

export interface Downloader {
  /** Concurrent calls with the same target wait for each other. A target that exists is not downloaded again. */
  file(request: FileRequest): Promise<Result<Download>>
  text(request: TextRequest): Promise<Result<string>>
  json(request: TextRequest): Promise<Result<unknown>>
  /** A body that is read as it arrives: one attempt, and nothing is stored. */
  open(address: Address, signal: AbortSignal): Promise<Result<Readable>>
  close(): Promise<void>
}

const defaultLimits: DownloadLimits = { stallMs: 30_000, retryMs: 1_000, maxRetryMs: 30_000, maxIdleAttempts: 5 }
const MAX_ATTEMPTS = 100
/** The part of an earlier attempt may be corrupt, so a resumed download with a wrong digest is repeated once. */
const MAX_DIGEST_TRIES = 2

export function makeDownloader(options: DownloaderOptions): Downloader {
  const getter = makeGetter(options)
  const tools: AttemptTools = { getter, limits: { ...defaultLimits, ...options.limits } }
  const downloads = new Map<string, Promise<unknown>>()

  const text = (request: TextRequest): Promise<Result<string>> =>
    withRetries(tools.limits, request.signal, () => transferText(tools, request))

  return {
    file: async (request) => {
      const { target, signal } = request
      for (let other = downloads.get(target); other !== undefined; other = downloads.get(target)) {
        await untilAborted(other, signal)
        if (signal.aborted) return failCancelled()
      }
      // There must be no await before `downloads.set`, or two callers could write the same part.
      const download = downloadFile(tools, request)
      downloads.set(
        target,
        download.catch(() => {}),
      )
      try {
        return await download
      } finally {
        downloads.delete(target)
      }
    },
    text,
    json: async (request) => {
      const body = await text(request)
      return body.ok ? parseJson(body.value, whereOf(request.url)) : body
    },
    open: async ({ url, ...address }, signal) => {
      const answer = await getter.get(url, { ...address, headers: {}, signal })
      if (!answer.ok) return answer
      const { status, body } = answer.value
      if (status === 200) return ok(body)
      body.destroy()
      return fail('bad_answer', { url: whereOf(url), cause: `the status ${status}` })
    },
    close: () => getter.close(),
  }
}

export function failCancelled(): Failure {
  return fail('cancelled')
}

export function partPathOf(target: string): string {
  return `${target}.part`
}

/** Deletes the file, and an unfinished download of it. */
export async function dropDownload(target: string): Promise<void> {
  await dropPart(partPathOf(target))
  await fs.rm(target, { force: true })
}

/** A new name is durable only once its folder is synced. */
export async function syncFolder(dir: string): Promise<void> {
  const handle = await fs.open(dir, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function downloadFile(tools: AttemptTools, request: FileRequest): Promise<Result<Download>> {
  const existing = await fs.stat(request.target).catch(unlessGone(undefined))
  if (existing !== undefined) {
    request.onBytes(existing.size, existing.size)
    return ok({ bytes: existing.size, isContinued: true })
  }
  const partPath = partPathOf(request.target)
  for (let tries = 1; ; tries += 1) {
    const download = await fillPart(tools, request, partPath)
    if (!download.ok) return download
    const mismatch = await findMismatch(request, partPath)
    if (mismatch === undefined) {
      await publish(partPath, request)
      return download
    }
    await dropPart(partPath)
    if (tries >= MAX_DIGEST_TRIES || !download.value.isContinued) return mismatch
  }
}

async function fillPart(tools: AttemptTools, request: FileRequest, partPath: string): Promise<Result<Download>> {
  const part = await openPart(partPath)
  let isContinued = part.bytes > 0
  try {
    const attempt = async (): Promise<Result<void>> => {
      isContinued ||= part.bytes > 0
      return transfer(tools, request, part)
    }
    const outcome = await withRetries(tools.limits, request.signal, attempt, () => part.bytes)
    if (outcome.ok) return ok({ bytes: part.bytes, isContinued })
    // The bytes are useless, or take space that others need. After any other failure the next call resumes from them.
    const mustDrop = ['wrong_size', 'bad_answer'].includes(outcome.reason) || outcome.kind === 'no_capacity'
    if (mustDrop || part.bytes === 0) await dropPart(partPath)
    return outcome
  } finally {
    await part.close()
  }
}

/** undefined: the part has the expected digest, or is not checked here. */
async function findMismatch(
  { digest, name, url, signal }: FileRequest,
  partPath: string,
): Promise<Failure | undefined> {
  if (digest === null || digest === 'checked-later') return undefined
  const hex = await hashFile(partPath, digest.algorithm, signal)
  if (hex === digest.hex) return undefined
  const facts = { algorithm: digest.algorithm, digest: hex, expectedDigest: digest.hex }
  return fail('wrong_digest', { name: name ?? path.basename(whereOf(url)), ...facts })
}

/** Renames the part to its target. Its bytes are already synced. */
async function publish(partPath: string, { target, mode }: FileRequest): Promise<void> {
  if (mode !== undefined) await fs.chmod(partPath, mode)
  await fs.rename(partPath, target)
  await dropPart(partPath)
  await syncFolder(path.dirname(target))
}

/** Repeats an attempt that failed for a temporary reason, until several attempts in a row make no progress. */
async function withRetries<T>(
  limits: DownloadLimits,
  signal: AbortSignal,
  attempt: () => Promise<Result<T>>,
  countBytes: () => number = () => 0,
): Promise<Result<T>> {
  let mostBytes = countBytes()
  for (let attempts = 1, idleAttempts = 0; ; attempts += 1) {
    const outcome = await attempt()
    if (outcome.ok || outcome.kind !== 'unavailable') return outcome
    if (signal.aborted) return failCancelled()
    idleAttempts = countBytes() > mostBytes ? 0 : idleAttempts + 1
    mostBytes = Math.max(mostBytes, countBytes())
    if (idleAttempts >= limits.maxIdleAttempts || attempts >= MAX_ATTEMPTS) return outcome
    if (!(await pause(limits, idleAttempts, outcome, signal))) return failCancelled()
  }
}

/** Waits longer after each attempt without progress, and at least as long as the server asks. false: canceled. */
async function pause(
  limits: DownloadLimits,
  idleAttempts: number,
  failure: Failure,
  signal: AbortSignal,
): Promise<boolean> {
  const backoffMs = Math.min(limits.retryMs * 2 ** Math.max(idleAttempts - 1, 0), limits.maxRetryMs)
  return delay(Math.max(backoffMs, failure.retryAfterMs ?? 0), true, { signal }).catch(() => false)
}

function parseJson(text: string, where: string): Result<unknown> {
  try {
    return ok(JSON.parse(text) as unknown)
  } catch {
    return fail('bad_answer', { url: where, cause: 'a body that is not JSON' })
  }
}

async function untilAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  const stop = new AbortController()
  await Promise.race([work, once(signal, 'abort', { signal: stop.signal }).catch(() => {})])
  stop.abort()
}
