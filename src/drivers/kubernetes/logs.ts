/**
 * The log of a pod. The API selects by start time and number of lines; all other filters are applied here, line by
 * line.
 */
import { Readable } from 'node:stream'
import { LastLines, LineSplitter, matches, parseStamped, showLine } from '../../base/log-lines.ts'
import type { StreamRequest } from '../../contract/agent.ts'
import type { KubernetesApi, Query } from './api.ts'
import { CONTAINER, podPath, type PodAddress } from './names.ts'

export type LogRequest = StreamRequest & { readonly kind: 'logs' }

/** The memory for the lines that are kept. */
const MAX_FOUND_BYTES = 8 * 1_048_576
const TAIL_LINES = 2_000

/** Returns the last lines of the log; each line starts with its time. */
export async function readTail(
  api: KubernetesApi,
  address: PodAddress,
  maxBytes: number,
  signal: AbortSignal,
): Promise<string> {
  const body = await open(api, address, { timestamps: 'true', tailLines: String(TAIL_LINES) }, signal)
  const last = new LastLines(TAIL_LINES, maxBytes)
  for await (const line of linesOf(body)) last.add(line)
  return last.all().toString('utf8')
}

/** Resolves once the server answers, so that an error does not look like an empty log. */
export async function openLogs(
  api: KubernetesApi,
  address: PodAddress,
  request: LogRequest,
  signal: AbortSignal,
): Promise<Readable> {
  const { search, until, tail, follow } = request
  const since: Query = request.since === undefined ? {} : { sinceTime: new Date(request.since).toISOString() }
  const isPlain = search === undefined && until === undefined && request.since === undefined
  const timestamps = String(request.timestamps === true || !isPlain)
  if (isPlain) return open(api, address, { timestamps, tailLines: String(tail), follow: String(follow) }, signal)
  const history = await open(api, address, { ...since, timestamps }, signal)
  return Readable.from(selected(api, address, request, history, signal), { objectMode: false })
}

/** Yields the lines that match and, with `follow`, later ones. */
async function* selected(
  api: KubernetesApi,
  address: PodAddress,
  request: LogRequest,
  history: Readable,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const lines = new LastLines(request.tail, MAX_FOUND_BYTES)
  let lastStamp: string | undefined
  for await (const line of linesOf(history)) {
    const parsed = parseStamped(line)
    lastStamp = parsed.stamp ?? lastStamp
    if (matches(parsed, request)) lines.add(showLine(parsed, request))
  }
  const text = lines.all()
  if (text.length > 0) yield text
  // A log with an end time has nothing to follow.
  if (!request.follow || request.until !== undefined) return
  const sinceTime = lastStamp ?? new Date(request.since ?? 0).toISOString()
  const newLines = await open(api, address, { sinceTime, timestamps: 'true', follow: 'true' }, signal)
  for await (const line of linesOf(newLines)) {
    const parsed = parseStamped(line)
    // The server starts again with the second of the last line. Times are texts of one format, so they compare as
    // texts.
    const isNew = lastStamp === undefined || (parsed.stamp ?? '') > lastStamp
    if (isNew && matches(parsed, request)) yield showLine(parsed, request)
  }
}

function open(api: KubernetesApi, address: PodAddress, query: Query, signal: AbortSignal): Promise<Readable> {
  return api.stream(`${podPath(address)}/log`, { container: CONTAINER, ...query }, signal)
}

async function* linesOf(body: Readable): AsyncGenerator<Buffer> {
  const splitter = new LineSplitter()
  for await (const chunk of body as AsyncIterable<Buffer>) yield* splitter.push(chunk)
  yield* splitter.flush()
}
