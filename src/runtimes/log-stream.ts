/** The log of a machine as a stream with two directions, which is what the ways to a machine carry. */
import { Duplex, type Readable } from 'node:stream'
import { contained } from '../base/net/contained.ts'

/** Discards written bytes; closing it closes the body. */
export function logStream(body: Readable): Duplex {
  const stream = new Duplex({
    read: () => void body.resume(),
    write: (_chunk, _encoding, done) => done(),
    destroy: (error, done) => {
      body.destroy()
      done(error)
    },
  })
  const end = (error: Error): unknown => stream.destroy(error)
  body.on(
    'data',
    contained(end, (chunk: Buffer) => stream.push(chunk) || body.pause()),
  )
  body.once('end', () => stream.push(null))
  body.once('error', () => stream.destroy(new Error('The log stream was interrupted.')))
  return stream
}
