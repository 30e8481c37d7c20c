/**
 * Sends requests over raw sockets and checks the answers. Jobs arrive as lines on standard input, several can run at a
 * time, and each is answered with one line on standard output. The bytes of a request are built once per job.
 */
import net, { type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { AnswerReader } from './answer-reader.ts'
import type { LoadJob, LoadResult, Percentiles } from './load.ts'
import { PLAIN_MARK, streamMarks } from './upstream-answer.ts'

const LOOPBACK = '127.0.0.1'
const CHAT_PATH = '/v1/chat/completions'
const READ_BUFFER_BYTES = 65_536
const ANSWER_WITHIN_MS = 60_000
const SWEEP_EVERY_MS = 1_000
const FAULT_TEXTS = 5
/** A side that answers incorrectly gets no more requests. */
const MAX_FAULTS = 50
/** Connections opened at a time; more would overflow the listener's queue. */
const OPEN_AT_ONCE = 100
const OPEN_EVERY_MS = 40
/** Of an open loop: timers are no finer. */
const START_EVERY_MS = 1

/** Shared by all connections: each read is processed before the next one. */
const readBuffer = Buffer.allocUnsafeSlow(READ_BUFFER_BYTES)

class Run {
  readonly job: LoadJob
  readonly request: Buffer
  #startedAt = performance.now()
  /** Of an open loop: once all connections are open. */
  #isStarted = false
  readonly #latencies: number[] = []
  readonly #firstBytes: number[] = []
  readonly #faultTexts: string[] = []
  #faults = 0
  /** Of an open loop: free connections, and when each request was due that has none yet. */
  readonly #free: LoadConnection[] = []
  readonly #due: number[] = []
  #started = 0

  constructor(job: LoadJob) {
    this.job = job
    const body = Buffer.from(job.body)
    const headers = { 'Content-Type': 'application/json', ...job.headers, 'Content-Length': String(body.length) }
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    const host = `${job.host ?? LOOPBACK}:${job.port}`
    const head = `POST ${job.path ?? CHAT_PATH} HTTP/1.1\r\nHost: ${host}\r\n${lines.join('')}\r\n`
    this.request = Buffer.concat([Buffer.from(head), body])
  }

  get isOpenLoop(): boolean {
    return this.job.requestsPerSecond !== undefined
  }

  mayGoOn(sent: number): boolean {
    if (this.#faults >= MAX_FAULTS) return false
    if (sent >= (this.job.requestsPerConnection ?? Infinity)) return false
    return performance.now() - this.#startedAt < this.job.durationMs
  }

  /** Open loop: the next request of this connection, or none until one is due. */
  rest(connection: LoadConnection): void {
    const dueAt = this.#due.shift()
    if (dueAt !== undefined) connection.send(dueAt)
    else if (this.mayGoOn(0)) this.#free.push(connection)
    else connection.leave()
    if (this.#isStarted || this.#free.length < this.job.connections) return
    this.#isStarted = true
    this.#startedAt = performance.now()
  }

  #startDue(rate: number): void {
    if (!this.mayGoOn(0)) {
      for (const connection of this.#free.splice(0)) connection.leave()
      return
    }
    if (!this.#isStarted) return
    const wanted = ((performance.now() - this.#startedAt) * rate) / 1_000
    for (; this.#started < wanted; this.#started += 1) {
      const dueAt = this.#startedAt + (this.#started * 1_000) / rate
      const connection = this.#free.pop()
      if (connection === undefined) this.#due.push(dueAt)
      else connection.send(dueAt)
    }
  }

  count(latencyMs: number, firstByteMs: number): void {
    this.#latencies.push(latencyMs)
    this.#firstBytes.push(firstByteMs)
  }

  fault(text: string): void {
    this.#faults += 1
    if (this.#faultTexts.length < FAULT_TEXTS) this.#faultTexts.push(text)
  }

  async finish(): Promise<LoadResult> {
    const connections: LoadConnection[] = []
    const sweep = setInterval(() => {
      for (const connection of connections) connection.endIfLate()
    }, SWEEP_EVERY_MS)
    const { requestsPerSecond: rate } = this.job
    const starts = rate === undefined ? undefined : setInterval(() => this.#startDue(rate), START_EVERY_MS)
    await Promise.all(
      Array.from(
        { length: this.job.connections },
        (_, n) =>
          new Promise<void>((resolve) => {
            const open = (): void => void connections.push(new LoadConnection(this, resolve))
            if (n < OPEN_AT_ONCE) open()
            else setTimeout(open, Math.floor(n / OPEN_AT_ONCE) * OPEN_EVERY_MS)
          }),
      ),
    )
    clearInterval(sweep)
    clearInterval(starts)
    return {
      answered: this.#latencies.length,
      tookMs: performance.now() - this.#startedAt,
      latencyMs: percentilesOf(this.#latencies),
      firstByteMs: percentilesOf(this.#firstBytes),
      faults: this.#faults,
      faultTexts: this.#faultTexts,
    }
  }
}

class LoadConnection {
  readonly #run: Run
  readonly #left: () => void
  readonly #reader = new AnswerReader()
  #socket: Socket
  #sent = 0
  /** NaN: no request is in progress. */
  #sentAt = Number.NaN
  #firstByteAt = Number.NaN
  #cutTimer: NodeJS.Timeout | undefined
  #isConnecting = true

  constructor(run: Run, left: () => void) {
    this.#run = run
    this.#left = left
    this.#socket = this.#open()
  }

  endIfLate(): void {
    if (performance.now() - this.#sentAt < ANSWER_WITHIN_MS || Number.isNaN(this.#sentAt)) return
    this.#fail(`no answer within ${ANSWER_WITHIN_MS} ms`)
  }

  #open(): Socket {
    this.#isConnecting = true
    const socket: Socket = net.connect({
      port: this.#run.job.port,
      host: this.#run.job.host ?? LOOPBACK,
      noDelay: true,
      onread: {
        buffer: readBuffer,
        callback: (length: number): boolean => {
          if (socket === this.#socket) this.#read(readBuffer.toString('latin1', 0, length))
          return true
        },
      },
    })
    socket.once('connect', () => {
      this.#isConnecting = false
      if (this.#run.isOpenLoop) this.#run.rest(this)
      else this.send()
    })
    socket.on('error', (error) => socket === this.#socket && this.#lost(error.message))
    socket.on('end', () => socket === this.#socket && this.#lost('the connection was closed'))
    return socket
  }

  send(dueAt = performance.now()): void {
    this.#sent += 1
    this.#reader.reset()
    this.#firstByteAt = Number.NaN
    this.#sentAt = dueAt
    this.#socket.write(this.#run.request)
  }

  #read(piece: string): void {
    if (Number.isNaN(this.#sentAt)) return this.#fail(`unexpected bytes: ${piece.slice(0, 80)}`)
    try {
      this.#reader.push(piece)
    } catch (error) {
      return this.#fail(error instanceof Error ? error.message : String(error))
    }
    if (Number.isNaN(this.#firstByteAt) && this.#reader.body !== '') this.#begun()
    if (this.#reader.isEnded) this.#judge()
  }

  #begun(): void {
    this.#firstByteAt = performance.now()
    const { expects } = this.#run.job
    if (expects.kind === 'cut' && this.#reader.status === 200) {
      this.#cutTimer = setTimeout(() => this.#cut(), expects.afterMs)
    }
  }

  #cut(): void {
    this.#count()
    this.#next(true)
  }

  #judge(): void {
    const why = faultOf(this.#run.job, this.#reader)
    if (why !== undefined) return this.#fail(why)
    this.#count()
    this.#next(this.#reader.isLast)
  }

  #count(): void {
    this.#run.count(performance.now() - this.#sentAt, this.#firstByteAt - this.#sentAt)
    this.#sentAt = Number.NaN
  }

  #next(isOver: boolean): void {
    clearTimeout(this.#cutTimer)
    if (!this.#run.mayGoOn(this.#sent)) return this.leave()
    const goOn = (): void => {
      if (!this.#run.mayGoOn(this.#sent)) this.leave()
      else if (isOver || this.#socket.destroyed) this.#socket = this.#open()
      else if (this.#run.isOpenLoop) this.#run.rest(this)
      else this.send()
    }
    if (isOver) this.#socket.destroy()
    if (this.#run.job.pauseMs === undefined) goOn()
    else setTimeout(goOn, this.#run.job.pauseMs)
  }

  /** A connection closed between two requests is not an error: the next request opens a new one. */
  #lost(why: string): void {
    this.#socket.destroy()
    if (this.#isConnecting || !Number.isNaN(this.#sentAt)) this.#fail(why)
  }

  #fail(why: string): void {
    this.#run.fault(why)
    this.#sentAt = Number.NaN
    this.#socket.destroy()
    if (this.#sent === 0) this.leave()
    else this.#next(true)
  }

  leave(): void {
    this.#socket.destroy()
    this.#left()
  }
}

/** undefined: the response is correct. */
function faultOf({ expects }: LoadJob, { status, body }: AnswerReader): string | undefined {
  const shown = `${status}: ${body.slice(0, 300)}`
  if (expects.kind === 'refusal') return status >= 400 && body.endsWith('}') ? undefined : `not refused, ${shown}`
  if (expects.kind === 'cut') return `ended before it was cut, ${shown}`
  if (status !== 200) return shown
  if (expects.kind === 'plain') {
    return body.includes(PLAIN_MARK) && body.includes('"usage"') && body.endsWith('}') ? undefined : `torn, ${shown}`
  }
  const marks = streamMarks[expects.protocol ?? 'chat']
  const hasEnd = body.endsWith('\n\n') && body.includes(marks.end)
  if (!hasEnd) return `a stream without its end: … ${body.slice(-200)}`
  const words = body.split(marks.word).length - 1
  return words === expects.words ? undefined : `a stream of ${words} words in place of ${expects.words}`
}

function percentilesOf(values: number[]): Percentiles {
  const sorted = Float64Array.from(values).sort()
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
  return { p50: at(0.5), p99: at(0.99) }
}

createInterface({ input: process.stdin })
  .on('line', (line) => {
    const { id, job } = JSON.parse(line) as { id: number; job: LoadJob }
    void new Run(job).finish().then((result) => process.stdout.write(`${JSON.stringify({ id, result })}\n`))
  })
  .on('close', () => process.exit(0))
process.stdout.write('ready\n')
