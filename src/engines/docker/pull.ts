/**
 * Pulling an image. A large one on a slow line may take hours, so there is no limit on the whole; but a pull that makes
 * no progress for a while is broken off and tried again, since the daemon itself would wait for ever on a connection
 * that is dead. A registry from which nothing comes at all (no such name, nobody listens, no such image, no permission)
 * is given up within seconds: trying for longer is no use, and somebody waits for the answer.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { CustomerError, NeverStarts } from '../runtime.ts'
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
  /** Every failure looks the same to the customer, and takes equally long. */
  readonly quiet?: boolean
  readonly progress: (message: string) => void
  /** What the daemon said of each pull that failed. */
  readonly failed: (error: unknown) => void
  readonly signal: AbortSignal
}

const STALLS = 3
/** A registry that cannot be reached is tried again after each of these, unless so long has passed already. */
const UNREACHABLE_PAUSES_MS = [500, 1_500] as const
const UNREACHABLE_MS = 10_000
/** Longer than the tries of a port where nobody listens take. */
const QUIET_MS = 5_000
const PROGRESS_EVERY_MS = 500
const BYTES_PER_MB = 1_000_000

/** Throws `NeverStarts` where trying again is no use. */
export async function pullImage(client: DockerClient, options: PullOptions): Promise<void> {
  const { image, signal, failed, quiet = false } = options
  const startedMs = performance.now()
  const left = [...UNREACHABLE_PAUSES_MS]
  let stalls = 0
  for (;;) {
    try {
      if ((await pullOnce(client, options)) === 'done') return
      stalls += 1
      const seconds = Math.round(options.stallMs / 1_000)
      const message = `the pull of ${image.full} made no progress for ${seconds} s`
      if (stalls === STALLS) throw new CustomerError(message)
      options.progress(`${message}, trying again`)
    } catch (error) {
      if (!(error instanceof PullFailed)) throw error
      failed(error.cause)
      const waitMs = error.fault === 'unreachable' ? left.shift() : undefined
      if (waitMs !== undefined && performance.now() - startedMs < UNREACHABLE_MS) {
        await pause(waitMs, undefined, { signal })
        continue
      }
      if (error.fault === 'broken') throw error
      if (!quiet) throw neverPulled(image, error.fault)
      await pause(Math.max(0, startedMs + QUIET_MS - performance.now()), undefined, { signal })
      throw new NeverStarts('image_unavailable', `${image.full} cannot be pulled.`)
    }
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

/** `broken`: trying again may help. */
export type PullFault = 'no_such_image' | 'no_such_platform' | 'refused' | 'invalid' | 'unreachable' | 'broken'

/** Its message is for customers, its cause is what the daemon said. */
class PullFailed extends CustomerError {
  readonly fault: PullFault
  constructor(image: ImageName, said: string, hasBegun: boolean) {
    const why = /no space left on device/i.test(said) ? ': the disk of the host is full' : ''
    super(`pulling ${image.full} failed${why}; trying again`, { cause: new Error(said) })
    this.fault = pullFaultOf(said, hasBegun)
  }
}

/** By what a daemon says. `hasBegun`: something of the image has come, so its registry can be reached. */
export function pullFaultOf(said: string, hasBegun: boolean): PullFault {
  if (/no matching manifest|no image found in manifest list/i.test(said)) return 'no_such_platform'
  if (/toomanyrequests|rate limit/i.test(said)) return 'broken'
  // A registry that knows no such repository and one that hides it from us say the same.
  if (/manifest unknown|manifest for .* not found|name unknown|repository .*not found|does not exist/i.test(said)) {
    return 'no_such_image'
  }
  if (/unauthorized|denied|no basic auth credentials|authentication required|forbidden/i.test(said)) return 'refused'
  if (/invalid reference format/i.test(said)) return 'invalid'
  // The registry's own API answers in another way: there is no registry at this address.
  if (/HTTP 40[34]|received unexpected HTTP status: 40|status code 40[34]/i.test(said)) return 'no_such_image'
  return !hasBegun && UNREACHABLE.test(said) ? 'unreachable' : 'broken'
}

const UNREACHABLE = new RegExp(
  [
    'no such host',
    'server misbehaving',
    'connection refused',
    'connection reset',
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
      return new NeverStarts('image_not_found', `There is no ${image.full} for machines of this kind.`)
    case 'no_such_image':
      return new NeverStarts('image_not_found', `There is no image ${image.full}, or it is not public.`)
    case 'refused':
      return new NeverStarts('image_refused', `The registry does not let us pull ${image.full}.`)
    case 'invalid':
      return new NeverStarts('image_invalid', `${image.full} is not the name of an image.`)
    case 'unreachable':
      return new NeverStarts('registry_unreachable', `The registry of ${image.full} cannot be reached from the host.`)
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
