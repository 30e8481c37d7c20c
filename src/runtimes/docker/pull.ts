/**
 * Pulls an image. A large one may take hours on a slow network, so there is no overall timeout; a pull without progress
 * is aborted and retried, since the daemon would wait forever on a dead connection. A registry that sends nothing at
 * all (unknown host, nothing listening, no such image, no permission) is given up within seconds.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { CustomerError, NeverStarts } from '../runtime.ts'
import { DockerRefused, type DockerClient } from './client.ts'
import type { ImageName } from '../image-name.ts'
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
  /** The compressed size to download. Absent: unlimited. */
  readonly maxBytes?: number | undefined
  /** All failures look the same to the customer and take equally long. */
  readonly quiet?: boolean
  readonly progress: (message: string) => void
  /** Receives the daemon's error of each failed attempt. */
  readonly failed: (error: unknown) => void
  readonly signal: AbortSignal
}

const MAX_STALLS = 3
/** Delays between attempts on an unreachable registry, within UNREACHABLE_MS overall. */
const UNREACHABLE_PAUSES_MS = [500, 1_500] as const
const UNREACHABLE_MS = 10_000
/** Longer than the attempts on a closed port take. */
const QUIET_MS = 5_000
const PROGRESS_EVERY_MS = 500
const BYTES_PER_MB = 1_000_000

/** Throws `NeverStarts` when a retry cannot help. */
export async function pullImage(client: DockerClient, options: PullOptions): Promise<void> {
  const { image, signal, failed, quiet = false } = options
  const startedMs = performance.now()
  const pauses = [...UNREACHABLE_PAUSES_MS]
  let stalls = 0
  for (;;) {
    try {
      if ((await pullOnce(client, options)) === 'done') return
      stalls += 1
      const seconds = Math.round(options.stallMs / 1_000)
      const message = `pulling ${image.full} made no progress for ${seconds} s`
      if (stalls === MAX_STALLS) throw new CustomerError(message)
      options.progress(`${message}, retrying`)
    } catch (error) {
      if (!(error instanceof PullFailed)) throw error
      failed(error.cause)
      // A customer who is told that a retry may help assumes that the registry answered, so silence is reported as
      // unreachable.
      const fault = quiet && !error.hasBegun && error.fault === 'broken' ? 'unreachable' : error.fault
      const waitMs = fault === 'unreachable' ? pauses.shift() : undefined
      if (waitMs !== undefined && performance.now() - startedMs < UNREACHABLE_MS) {
        await pause(waitMs, undefined, { signal })
        continue
      }
      if (fault === 'broken') throw error
      if (!quiet) throw neverPulled(image, fault)
      await pause(Math.max(0, startedMs + QUIET_MS - performance.now()), undefined, { signal })
      throw new NeverStarts('image_unavailable', `Cannot pull ${image.full}.`)
    }
  }
}

async function pullOnce(client: DockerClient, options: PullOptions): Promise<'done' | 'stalled'> {
  const { image, login, stallMs, signal } = options
  const stall = new AbortController()
  const timer = setTimeout(() => stall.abort(), stallMs)
  const tally = pullTally(image.full)
  let last = ''
  const report = (): void => {
    if (tally.message() === last) return
    last = tally.message()
    options.progress(last)
  }
  const reporter = setInterval(report, PROGRESS_EVERY_MS)
  try {
    report()
    const body = await client.stream('POST', '/images/create', {
      query: { fromImage: image.repository, tag: image.reference },
      headers: login === undefined ? {} : { 'x-registry-auth': registryAuth(login) },
      // The stall timeout covers the response head as well.
      timeoutMs: 0,
      signal: AbortSignal.any([signal, stall.signal]),
    })
    for await (const value of readJsonLines(body)) {
      const line = pullLine.parse(value)
      if (line.error !== undefined) throw new PullFailed(image, line.error, tally.totalBytes() > 0)
      if (tally.take(line)) timer.refresh()
      if (tally.totalBytes() > (options.maxBytes ?? Number.POSITIVE_INFINITY)) throw imageTooLarge(image)
    }
    return 'done'
  } catch (error) {
    if (stall.signal.aborted && !signal.aborted) return 'stalled'
    throw error instanceof DockerRefused ? new PullFailed(image, error.message, false) : error
  } finally {
    clearTimeout(timer)
    clearInterval(reporter)
  }
}

/** Adds up the layers. `take` returns whether the line was progress. */
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
      // The daemon's countdown to its own retry is not progress.
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
  return new NeverStarts('image_too_large', `${image.full} does not fit on the disk of this rental.`)
}

/** `broken`: a retry may help. */
export type PullFault = 'no_such_image' | 'no_such_platform' | 'refused' | 'invalid' | 'unreachable' | 'broken'

/** The message is for customers; the cause is the daemon's error. */
class PullFailed extends CustomerError {
  readonly fault: PullFault
  readonly hasBegun: boolean
  constructor(image: ImageName, text: string, hasBegun: boolean) {
    const why = /no space left on device/i.test(text) ? ": the host's disk is full" : ''
    super(`pulling ${image.full} failed${why}; retrying`, { cause: new Error(text) })
    this.fault = pullFaultOf(text, hasBegun)
    this.hasBegun = hasBegun
  }
}

/** From the daemon's error text. `hasBegun`: part of the image has arrived, so the registry is reachable. */
export function pullFaultOf(text: string, hasBegun: boolean): PullFault {
  if (/no matching manifest|no image found in manifest list/i.test(text)) return 'no_such_platform'
  if (/toomanyrequests|rate limit/i.test(text)) return 'broken'
  // Registries answer the same for a repository that does not exist and one that is private.
  if (/manifest unknown|manifest for .* not found|name unknown|repository .*not found|does not exist/i.test(text)) {
    return 'no_such_image'
  }
  if (/unauthorized|denied|no basic auth credentials|authentication required|forbidden/i.test(text)) return 'refused'
  if (/invalid reference format/i.test(text)) return 'invalid'
  // Not the answer of a registry API: there is no registry at this address.
  if (/HTTP 40[34]|received unexpected HTTP status: 40|status code 40[34]/i.test(text)) return 'no_such_image'
  return !hasBegun && UNREACHABLE.test(text) ? 'unreachable' : 'broken'
}

const UNREACHABLE = new RegExp(
  [
    'no such host',
    'server misbehaving',
    'connection refused',
    'connection reset',
    'broken pipe',
    'server closed',
    'network is unreachable',
    'no route to host',
    'i/o timeout',
    'Client\\.Timeout',
    'context deadline exceeded',
    'TLS handshake',
    'x509',
    'tls:',
    'HTTP response to HTTPS client',
    'malformed HTTP',
    'proxyconnect',
    'EOF',
  ].join('|'),
  'i',
)

function neverPulled(image: ImageName, fault: Exclude<PullFault, 'broken'>): NeverStarts {
  switch (fault) {
    case 'no_such_platform':
      return new NeverStarts('image_not_found', `${image.full} is not available for this CPU architecture.`)
    case 'no_such_image':
      return new NeverStarts('image_not_found', `Image ${image.full} does not exist or is not public.`)
    case 'refused':
      return new NeverStarts('image_refused', `The registry denied access to ${image.full}.`)
    case 'invalid':
      return new NeverStarts('image_invalid', `${image.full} is not a valid image name.`)
    case 'unreachable':
      return new NeverStarts('registry_unreachable', `The host cannot reach the registry of ${image.full}.`)
  }
}

function registryAuth(login: RegistryLogin): string {
  // Padded base64url: the daemon is strict about it.
  const text = Buffer.from(JSON.stringify({ username: login.username, password: login.password })).toString('base64')
  return text.replaceAll('+', '-').replaceAll('/', '_')
}

function megabytes(bytes: number): number {
  return Math.ceil(bytes / BYTES_PER_MB)
}
