/**
 * The disk of a container as one stream between hosts: a line of JSON, then parts in chunks with their length before them,
 * then the digest of all that. A part ends with an empty chunk. Empty lines before the first, and chunks of the length
 * `NOTHING`, show that the sender is still at work: it may take minutes to collect the files.
 */
import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Readable } from 'node:stream'
import { z } from 'zod'

const archiveHead = z.object({
  /** The name that the image has in the archive. */
  image: z.string(),
  /** The private SSH host key, so that clients recognize the machine. */
  hostKey: z.string(),
  /** About the size of all parts. */
  bytes: z.number().min(0),
  layers: z.array(z.string()),
  /** Paths of the image's volumes. Each is a part after the image, in this order. */
  volumePaths: z.array(z.string()).max(100),
})
export type ArchiveHead = z.output<typeof archiveHead>

const LENGTH_BYTES = 4
const NOTHING = 0xff_ff_ff_ff
const MAX_CHUNK_BYTES = 16 * 1_048_576
const MAX_HEAD_BYTES = 1_048_576
const DIGEST_BYTES = 32
const BEAT_MS = 5_000

export interface ArchiveSource {
  readonly head: ArchiveHead
  readonly parts: ReadonlyArray<() => Promise<Readable>>
}

export async function* writeArchive(collect: Promise<ArchiveSource>): AsyncGenerator<Buffer> {
  for (let isReady = false; !isReady;) {
    isReady = await Promise.race([collect.then(() => true), pause(BEAT_MS, false, { ref: false })])
    if (!isReady) yield Buffer.from('\n')
  }
  const { head, parts } = await collect
  const digest = createHash('sha256')
  const line = Buffer.from(`${JSON.stringify(head)}\n`)
  digest.update(line)
  yield line
  for (const open of parts) {
    for await (const chunk of withBeats(open)) {
      if (chunk === undefined) yield lengthOf(NOTHING)
      else if (chunk.length > 0) {
        digest.update(chunk)
        yield lengthOf(chunk.length)
        yield chunk
      }
    }
    yield lengthOf(0)
  }
  yield digest.digest()
}

/** undefined: nothing has come for a while. */
async function* withBeats(open: () => Promise<Readable>): AsyncGenerator<Buffer | undefined> {
  const opening = open()
  // Beats are sent also while the archive is being opened.
  const chunks = (async function* () {
    for await (const chunk of await opening) yield chunk as Buffer
  })()
  try {
    let beat = pause(BEAT_MS, undefined, { ref: false })
    for (let next = chunks.next(); ;) {
      const ready = await Promise.race([next, beat])
      if (ready === undefined) {
        beat = pause(BEAT_MS, undefined, { ref: false })
        yield undefined
      } else if (ready.done === true) return
      else {
        yield ready.value
        next = chunks.next()
      }
    }
  } finally {
    opening.then(
      (stream) => stream.destroy(),
      () => {},
    )
  }
}

function lengthOf(length: number): Buffer {
  const bytes = Buffer.alloc(LENGTH_BYTES)
  bytes.writeUInt32BE(length)
  return bytes
}

/** Reads an archive once, front to back. Every part must be read to its end before the next. */
export class ArchiveReader {
  readonly #chunks: AsyncIterator<Buffer>
  readonly #digest = createHash('sha256')
  #left: Buffer = Buffer.alloc(0)

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]()
  }

  async head(): Promise<ArchiveHead> {
    let line = ''
    while (line === '') line = (await this.#line()).toString('utf8')
    this.#digest.update(`${line}\n`)
    return archiveHead.parse(JSON.parse(line))
  }

  async *part(): AsyncGenerator<Buffer> {
    for (;;) {
      const length = (await this.#take(LENGTH_BYTES)).readUInt32BE()
      if (length === 0) return
      if (length === NOTHING) continue
      if (length > MAX_CHUNK_BYTES) throw new Error('The archive of the disk is damaged.')
      const chunk = await this.#take(length)
      this.#digest.update(chunk)
      yield chunk
    }
  }

  /** Throws unless all that was read is what was sent. */
  async verify(): Promise<void> {
    if (!(await this.#take(DIGEST_BYTES)).equals(this.#digest.digest()))
      throw new Error('The archive of the disk is damaged.')
  }

  async #line(): Promise<Buffer> {
    let end = this.#left.indexOf('\n')
    while (end < 0) {
      if (this.#left.length > MAX_HEAD_BYTES) throw new Error('The archive of the disk is damaged.')
      await this.#more()
      end = this.#left.indexOf('\n')
    }
    const line = this.#left.subarray(0, end)
    this.#left = this.#left.subarray(end + 1)
    return line
  }

  async #take(length: number): Promise<Buffer> {
    const parts: Buffer[] = []
    for (let missing = length; missing > 0;) {
      if (this.#left.length === 0) await this.#more()
      const part = this.#left.subarray(0, missing)
      this.#left = this.#left.subarray(part.length)
      missing -= part.length
      parts.push(part)
    }
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts)
  }

  async #more(): Promise<void> {
    const next = await this.#chunks.next()
    if (next.done === true) throw new Error('The other host stopped sending the disk.')
    this.#left = this.#left.length === 0 ? next.value : Buffer.concat([this.#left, next.value])
  }
}
