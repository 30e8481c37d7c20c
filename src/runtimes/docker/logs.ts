/**
 * The log of a container. The daemon selects by time; a search goes through all lines here, keeps the last that match
 * and continues after them. Containers have a terminal, so their log is not framed.
 */
import { Readable, type Duplex } from 'node:stream'
import { LastLines, LineSplitter, matches, parseStamped, showLine, type LineFilter } from '../../base/log-lines.ts'
import type { StreamRequest } from '../../contract/agent.ts'
import { logStream } from '../log-stream.ts'
import type { DockerClient } from './client.ts'
import type { Container } from './reply.ts'

export type LogRequest = StreamRequest & { readonly kind: 'logs' }

/** Memory for the lines that match a search. */
const MAX_FOUND_BYTES = 8 * 1_048_576

export async function openLogs(
  client: DockerClient,
  container: Container,
  request: LogRequest,
  signal: AbortSignal,
): Promise<Duplex> {
  // The signal is for the opening only: a followed log outlives it.
  const opening = new AbortController()
  const abort = (): void => opening.abort()
  signal.addEventListener('abort', abort)
  try {
    if (request.search === undefined) return logStream(await read(client, container, request, opening.signal))
    const matches = await search(client, container, request, opening.signal)
    return logStream(Readable.from(follow(client, container, request, matches), { objectMode: false }))
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

type Wanted = LineFilter & { readonly follow: boolean; readonly tail: number | 'all' }

function read(client: DockerClient, container: Container, request: Wanted, signal?: AbortSignal): Promise<Readable> {
  const query = {
    stdout: 'true',
    stderr: 'true',
    follow: String(request.follow),
    tail: String(request.tail),
    ...(request.timestamps === true ? { timestamps: 'true' } : {}),
    ...(request.since === undefined ? {} : { since: inSeconds(request.since) }),
    ...(request.until === undefined ? {} : { until: inSeconds(request.until) }),
  }
  return client.stream('GET', `/containers/${container.Id}/logs`, { query, signal })
}

interface Found {
  readonly text: Buffer
  /** The time of the last line, matching or not. */
  readonly lastStamp: string | undefined
}

async function search(
  client: DockerClient,
  container: Container,
  request: LogRequest,
  signal: AbortSignal,
): Promise<Found> {
  const reading = { ...request, follow: false, tail: 'all', timestamps: true } as const
  const splitter = new LineSplitter()
  const last = new LastLines(request.tail, MAX_FOUND_BYTES)
  let lastStamp: string | undefined
  const take = (lines: readonly Buffer[]): void => {
    for (const line of lines) {
      const parsed = parseStamped(line)
      lastStamp = parsed.stamp ?? lastStamp
      if (matches(parsed, { search: request.search })) last.add(showLine(parsed, request))
    }
  }
  for await (const chunk of (await read(client, container, reading, signal)) as AsyncIterable<Buffer>) {
    take(splitter.push(chunk))
  }
  take(splitter.flush())
  return { text: last.all(), lastStamp }
}

/** The lines that were found and, with `follow`, later ones that match. */
async function* follow(
  client: DockerClient,
  container: Container,
  request: LogRequest,
  { text, lastStamp }: Found,
): AsyncGenerator<Buffer> {
  if (text.length > 0) yield text
  if (!request.follow) return
  const since = lastStamp === undefined ? request.since : Date.parse(lastStamp)
  const reading = { ...request, tail: 'all', timestamps: true, since } as const
  const splitter = new LineSplitter()
  for await (const chunk of (await read(client, container, reading)) as AsyncIterable<Buffer>) {
    for (const line of splitter.push(chunk)) {
      const parsed = parseStamped(line)
      // The daemon starts with the millisecond of the last line; times are text of one form, so they compare as text.
      const isNew = lastStamp === undefined || (parsed.stamp ?? '') > lastStamp
      if (isNew && matches(parsed, { search: request.search })) yield showLine(parsed, request)
    }
  }
}

function inSeconds(ms: number): string {
  return (ms / 1_000).toFixed(3)
}
