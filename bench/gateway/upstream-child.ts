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
import { RequestReader, writeWords } from './upstream-request.ts'

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

function serve(kind: UpstreamKind): Promise<number> {
  const answer = answers[kind]
  const server = net.createServer({ noDelay: true }, (socket) => {
    const reader = new RequestReader(({ isGet }) => (isGet ? void socket.write(healthAnswer) : answer(socket)))
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
