/**
 * A process that responds like an engine on raw sockets: cheap, so that the proxies in front dominate the measurement.
 * It parses just enough HTTP to find the end of a request. Each response kind has a port, listed in the first line it
 * prints. It ends with its parent process.
 */
import net, { type Socket } from 'node:net'
import {
  failingAnswer,
  healthAnswer,
  HELD_MS,
  plainAnswer,
  SLOW_STREAM_WORD_EVERY_MS,
  SLOW_STREAM_WORDS,
  STREAM_WORD_EVERY_MS,
  STREAM_WORDS,
  streamPieces,
  upstreamKinds,
  type UpstreamKind,
} from './upstream-answer.ts'

const END_OF_HEAD = '\r\n\r\n'
/** JSON escapes every line end, so this can only be the end of a chunked body. */
const END_OF_CHUNKS = '\r\n0\r\n\r\n'
const BACKLOG = 4_096

const words = streamPieces(STREAM_WORDS)
const slowWords = streamPieces(SLOW_STREAM_WORDS)

const answers: Readonly<Record<UpstreamKind, (socket: Socket) => void>> = {
  plain: (socket) => void socket.write(plainAnswer),
  stream: (socket) => writeWords(socket, words, STREAM_WORD_EVERY_MS),
  'slow-stream': (socket) => writeWords(socket, slowWords, SLOW_STREAM_WORD_EVERY_MS),
  held: (socket) => void setTimeout(() => !socket.destroyed && socket.write(plainAnswer), HELD_MS),
  failing: (socket) => void socket.write(failingAnswer),
}

/** Words are never sent together: a late stream stays late. */
function writeWords(socket: Socket, pieces: readonly Buffer[], everyMs: number, from = 0): void {
  const piece = pieces[from]
  if (piece === undefined || socket.destroyed) return
  socket.write(piece)
  if (from + 1 < pieces.length) setTimeout(() => writeWords(socket, pieces, everyMs, from + 1), everyMs)
}

/** The part of the current request read so far. */
class RequestReader {
  readonly #done: (isGet: boolean) => void
  #head = ''
  #bodyLeft = 0
  /** The last bytes of a chunked body; undefined: the body has a length. */
  #chunkTail: string | undefined

  constructor(done: (isGet: boolean) => void) {
    this.#done = done
  }

  read(bytes: Buffer, length: number): void {
    let at = 0
    while (at < length) {
      if (this.#chunkTail !== undefined) at = this.#readChunked(bytes, at, length)
      else if (this.#bodyLeft > 0) at = this.#readBody(at, length)
      else at = this.#readHead(bytes, at, length)
    }
  }

  #readHead(bytes: Buffer, at: number, length: number): number {
    const before = this.#head.length
    const text = this.#head + bytes.toString('latin1', at, length)
    const end = text.indexOf(END_OF_HEAD, Math.max(0, before - END_OF_HEAD.length))
    if (end === -1) {
      this.#head = text
      return length
    }
    this.#head = ''
    const head = text.slice(0, end)
    const [, digits] = /\r\ncontent-length: *(\d+)/i.exec(head) ?? []
    if (/\r\ntransfer-encoding: *chunked/i.test(head)) this.#chunkTail = END_OF_HEAD.slice(2)
    else if (digits === undefined || digits === '0') this.#done(head.startsWith('GET '))
    else this.#bodyLeft = Number.parseInt(digits, 10)
    return at + end + END_OF_HEAD.length - before
  }

  #readBody(at: number, length: number): number {
    const taken = Math.min(this.#bodyLeft, length - at)
    this.#bodyLeft -= taken
    if (this.#bodyLeft === 0) this.#done(false)
    return at + taken
  }

  /** Requests are not pipelined, so the end of the chunks is the end of the data. */
  #readChunked(bytes: Buffer, at: number, length: number): number {
    const text = `${this.#chunkTail}${bytes.toString('latin1', Math.max(at, length - END_OF_CHUNKS.length), length)}`
    if (text.endsWith(END_OF_CHUNKS)) {
      this.#chunkTail = undefined
      this.#done(false)
    } else this.#chunkTail = text.slice(-END_OF_CHUNKS.length)
    return length
  }
}

function serve(kind: UpstreamKind): Promise<number> {
  const answer = answers[kind]
  const server = net.createServer({ noDelay: true }, (socket) => {
    const reader = new RequestReader((isGet) => (isGet ? void socket.write(healthAnswer) : answer(socket)))
    socket.on('data', (bytes) => reader.read(bytes, bytes.length))
    // Disconnecting clients are part of the test.
    socket.on('error', () => socket.destroy())
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject).listen({ port: 0, host: '127.0.0.1', backlog: BACKLOG }, () => {
      const address = server.address()
      if (address === null || typeof address === 'string') reject(new Error('no port was given'))
      else resolve(address.port)
    })
  })
}

const ports: Array<[UpstreamKind, number]> = []
for (const kind of upstreamKinds) ports.push([kind, await serve(kind)])
process.stdout.write(`${JSON.stringify(Object.fromEntries(ports))}\n`)
process.stdin.on('end', () => process.exit(0)).resume()
