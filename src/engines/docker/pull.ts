/**
 * Pulling an image. A large one on a slow line may take hours, so there is no limit on the whole; but a pull that makes
 * no progress for a while is broken off and tried again, since the daemon itself would wait for ever on a connection
 * that is dead. An image that is on the host already is asked for all the same: what the host's owner keeps there is
 * not for customers, and only the registry says what is.
 */
import { NeverStarts } from '../runtime.ts'
import { DockerRefused, type DockerClient } from './client.ts'
import type { ImageName } from './image-name.ts'
import { readJsonLines } from './json-lines.ts'
import { pullLine, type PullLine } from './reply.ts'

export interface RegistryLogin {
  readonly username: string
  readonly password: string
}

export interface PullOptions {
  readonly image: ImageName
  readonly login: RegistryLogin | undefined
  readonly stallMs: number
  /** Of all that has to be fetched, as it comes over the line. Absent: as large as it likes. */
  readonly maxBytes?: number | undefined
  readonly progress: (message: string) => void
  readonly signal: AbortSignal
}

const TRIES = 3
const PROGRESS_EVERY_MS = 500
const BYTES_PER_MB = 1_000_000

export async function pullImage(client: DockerClient, options: PullOptions): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    if ((await pullOnce(client, options)) === 'done') return
    const seconds = Math.round(options.stallMs / 1_000)
    const message = `the pull of ${options.image.full} made no progress for ${seconds} s`
    if (tries === TRIES) throw new Error(message)
    options.progress(`${message}, trying again`)
  }
}

async function pullOnce(client: DockerClient, options: PullOptions): Promise<'done' | 'stalled'> {
  const { image, login, stallMs, signal } = options
  const stall = new AbortController()
  const timer = setTimeout(() => stall.abort(), stallMs)
  const tally = pullTally(image.full)
  let told = ''
  const tell = (): void => {
    if (tally.message() === told) return
    told = tally.message()
    options.progress(told)
  }
  const teller = setInterval(tell, PROGRESS_EVERY_MS)
  try {
    tell()
    const body = await client.stream('POST', '/images/create', {
      query: { fromImage: image.repository, tag: image.reference },
      headers: login === undefined ? {} : { 'x-registry-auth': registryAuth(login) },
      // The stall limit counts for the head as well.
      timeoutMs: 0,
      signal: AbortSignal.any([signal, stall.signal]),
    })
    for await (const value of readJsonLines(body)) {
      const line = pullLine.parse(value)
      if (line.error !== undefined) throw pullFault(image, line.error)
      if (tally.take(line)) timer.refresh()
      if (tally.totalBytes() > (options.maxBytes ?? Number.POSITIVE_INFINITY)) throw imageTooLarge(image)
    }
    return 'done'
  } catch (error) {
    if (stall.signal.aborted && !signal.aborted) return 'stalled'
    throw error instanceof DockerRefused ? pullFault(image, error.message) : error
  } finally {
    clearTimeout(timer)
    clearInterval(teller)
  }
}

/** Adds up the layers. `take` says whether the line was progress. */
export function pullTally(name: string): {
  take(line: PullLine): boolean
  message(): string
  totalBytes(): number
} {
  const layers = new Map<string, { current: number; total: number; text: string }>()
  let unpacking = false
  const sum = (of: 'current' | 'total'): number => [...layers.values()].reduce((all, one) => all + one[of], 0)
  return {
    totalBytes: () => sum('total'),
    take: ({ id = '', status = '', progressDetail }) => {
      // The daemon counts down to its own next try. That is no progress.
      if (status.startsWith('Retrying')) return false
      const before = layers.get(id)
      const text = `${status} ${progressDetail.current ?? ''}`
      if (before?.text === text) return false
      const total = Math.max(progressDetail.total ?? 0, before?.total ?? 0)
      let current = before?.current ?? 0
      if (status === 'Downloading') current = progressDetail.current ?? current
      else if (/^(Extracting|Download complete|Pull complete|Verifying)/.test(status)) current = total
      if (status === 'Extracting') unpacking = true
      layers.set(id, { current, total, text })
      return true
    },
    message: () => {
      const total = sum('total')
      if (total === 0) return `pulling ${name}`
      if (unpacking && sum('current') === total) return `unpacking ${name}, ${megabytes(total)} MB`
      return `pulling ${name}, ${megabytes(sum('current'))} of ${megabytes(total)} MB`
    },
  }
}

export function imageTooLarge(image: ImageName): NeverStarts {
  return new NeverStarts('image_too_large', `${image.full} is larger than the share of the disk.`)
}

/** What a registry says, made into what we do about it. Whatever is not known for certain is tried again. */
export function pullFault(image: ImageName, message: string): Error {
  if (/no matching manifest|no image found in manifest list/i.test(message)) {
    return new NeverStarts('image_not_found', `There is no ${image.full} for machines of this kind.`)
  }
  if (/toomanyrequests|rate limit/i.test(message)) return new Error(message)
  // A registry that knows no such repository and one that hides it from us say the same.
  if (/manifest unknown|manifest for .* not found|name unknown|repository .*not found|does not exist/i.test(message)) {
    return new NeverStarts('image_not_found', `There is no image ${image.full}, or it is not public.`)
  }
  if (/unauthorized|denied|no basic auth credentials|authentication required|forbidden/i.test(message)) {
    return new NeverStarts('image_refused', `The registry does not let us pull ${image.full}.`)
  }
  if (/invalid reference format/i.test(message)) {
    return new NeverStarts('image_invalid', `${image.full} is not the name of an image.`)
  }
  return new Error(`pulling ${image.full}: ${message}`)
}

function registryAuth(login: RegistryLogin): string {
  // Padded base64url: the daemon is strict about it.
  const text = Buffer.from(JSON.stringify({ username: login.username, password: login.password })).toString('base64')
  return text.replaceAll('+', '-').replaceAll('/', '_')
}

function megabytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_MB)
}
