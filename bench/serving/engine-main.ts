/**
 * The engine of the bench in a container: answers at once, plain or as a stream, with the bytes of the other benches. It
 * costs so little that the path in front of it dominates.
 */
import net from 'node:net'
import {
  healthAnswer,
  plainAnswer,
  STREAM_WORD_EVERY_MS,
  STREAM_WORDS,
  streamPieces,
} from '../gateway/upstream-answer.ts'
import { RequestReader, writeWords } from '../gateway/upstream-request.ts'

const BACKLOG = 4_096
const words = streamPieces(STREAM_WORDS)

const server = net.createServer({ noDelay: true }, (socket) => {
  const reader = new RequestReader(({ isGet, isStream }) => {
    if (isStream) writeWords(socket, words, STREAM_WORD_EVERY_MS)
    else socket.write(isGet ? healthAnswer : plainAnswer)
  })
  socket.on('data', (bytes) => reader.read(bytes, bytes.length))
  socket.on('error', () => socket.destroy())
})
server.listen({ port: Number(process.env['PORT']), host: '0.0.0.0', backlog: BACKLOG })
process.once('SIGTERM', () => process.exit(0))
