/**
 * Finds one file in a tar stream and hands out its bytes as they come, so that an archive of any size needs no more
 * memory than a chunk. It reads ustar, pax headers (long names, sizes past 8 GiB) and GNU's long names and sizes; what
 * else a tar may hold is passed over. The surprise: an archive comes from outside, so a number in it is believed only
 * within limits, and a header only when its checksum is right.
 */

const BLOCK_BYTES = 512
/** Of a pax header or a GNU long name. */
const META_BYTES = 1_048_576
const ENTRIES = 100_000

export class TarError extends Error {}

export interface TarEntry {
  readonly bytes: number
  /** Reads the stream on; to be read once, and to its end. */
  readonly body: AsyncIterable<Buffer>
}

/** The first file whose name `isWanted`; undefined when the archive has none. */
export async function findTarEntry(
  archive: AsyncIterable<Uint8Array>,
  isWanted: (name: string) => boolean,
): Promise<TarEntry | undefined> {
  const reader = makeReader(archive)
  let longer: { name?: string; bytes?: number } = {}
  for (let entries = 0; entries < ENTRIES; entries += 1) {
    const block = await reader.read(BLOCK_BYTES)
    // Two blocks of zeros end an archive; some writers leave them out.
    if (block === undefined || block.every((byte) => byte === 0)) return undefined
    const header = readHeader(block)
    if (header.type === 'x' || header.type === 'L') {
      const text = await readMeta(reader, header.bytes)
      longer = { ...longer, ...(header.type === 'x' ? readPax(text) : { name: upToZero(text) }) }
      continue
    }
    const name = longer.name ?? header.name
    const bytes = longer.bytes ?? header.bytes
    // A long link name (K) and a global header (g) come before the entry whose long name we may hold already.
    if (header.type !== 'K' && header.type !== 'g') {
      longer = {}
      if (isWanted(name)) return openEntry(reader, header.type, name, bytes)
    }
    await reader.skip(padded(bytes))
  }
  throw new TarError(`The archive has more than ${ENTRIES} entries`)
}

function openEntry(reader: Reader, type: string, name: string, bytes: number): TarEntry {
  if (!['0', '\0', '7'].includes(type)) throw new TarError(`${name} in the archive is not a plain file`)
  return { bytes, body: reader.pass(bytes) }
}

interface Header {
  readonly name: string
  readonly bytes: number
  readonly type: string
}

function readHeader(block: Buffer): Header {
  const sum = readNumber(block.subarray(148, 156))
  let real = 0
  // The checksum is reckoned as if its own field were eight spaces.
  for (const [at, byte] of block.entries()) real += at >= 148 && at < 156 ? 0x20 : byte
  if (sum !== real) throw new TarError('The archive is damaged: a header has a wrong checksum')
  const name = upToZero(block.subarray(0, 100))
  // GNU writes `ustar  `, and other things where ustar has the prefix.
  const prefix = block.toString('latin1', 257, 263) === 'ustar\0' ? upToZero(block.subarray(345, 500)) : ''
  return {
    name: prefix === '' ? name : `${prefix}/${name}`,
    bytes: readNumber(block.subarray(124, 136)),
    type: String.fromCharCode(block[156] ?? 0),
  }
}

/** Octal digits, or, where the first bit is set, a plain big-endian number. */
function readNumber(field: Buffer): number {
  const first = field[0] ?? 0
  if ((first & 0x80) === 0) {
    const digits = upToZero(field).trim()
    if (!/^[0-7]*$/.test(digits)) throw new TarError('The archive is damaged: a header has a bad number')
    return digits === '' ? 0 : Number.parseInt(digits, 8)
  }
  let value = first & 0x7f
  for (const byte of field.subarray(1)) value = value * 256 + byte
  if (!Number.isSafeInteger(value)) throw new TarError('The archive is damaged: a header has a number out of range')
  return value
}

/** Records of the form `<length> <key>=<value>\n`, where the length counts the whole record. */
function readPax(text: Buffer): { name?: string; bytes?: number } {
  const found: { name?: string; bytes?: number } = {}
  for (let at = 0; at < text.length;) {
    const space = text.indexOf(0x20, at)
    const length = space < 0 ? Number.NaN : Number(text.toString('latin1', at, space))
    if (!Number.isSafeInteger(length) || length < 5 || at + length > text.length) {
      throw new TarError('The archive is damaged: a pax header cannot be read')
    }
    const record = text.toString('utf8', space + 1, at + length - 1)
    const equals = record.indexOf('=')
    const [key, value] = [record.slice(0, equals), record.slice(equals + 1)]
    if (key === 'path') found.name = value
    if (key === 'size' && /^\d{1,15}$/.test(value)) found.bytes = Number(value)
    at += length
  }
  return found
}

async function readMeta(reader: Reader, bytes: number): Promise<Buffer> {
  if (bytes > META_BYTES) throw new TarError(`A header of the archive is longer than ${META_BYTES} bytes`)
  const text = await reader.read(padded(bytes))
  if (text === undefined) throw cutShort()
  return text.subarray(0, bytes)
}

interface Reader {
  /** Exactly so many bytes; undefined when the stream ended before the first. */
  read(bytes: number): Promise<Buffer | undefined>
  skip(bytes: number): Promise<void>
  pass(bytes: number): AsyncIterable<Buffer>
}

function makeReader(source: AsyncIterable<Uint8Array>): Reader {
  const chunks = source[Symbol.asyncIterator]()
  let rest: Buffer = Buffer.alloc(0)

  /** At most so many bytes, and at least one; undefined at the end. */
  const next = async (most: number): Promise<Buffer | undefined> => {
    while (rest.length === 0) {
      const { value, done } = await chunks.next()
      if (done === true) return undefined
      rest = Buffer.from(value.buffer, value.byteOffset, value.byteLength)
    }
    const piece = rest.subarray(0, most)
    rest = rest.subarray(piece.length)
    return piece
  }

  async function* pass(bytes: number): AsyncGenerator<Buffer> {
    for (let left = bytes; left > 0;) {
      const piece = await next(left)
      if (piece === undefined) throw cutShort()
      left -= piece.length
      yield piece
    }
  }

  return {
    pass,
    skip: async (bytes) => {
      for (let left = bytes; left > 0;) {
        const piece = await next(left)
        if (piece === undefined) throw cutShort()
        left -= piece.length
      }
    },
    read: async (bytes) => {
      const pieces: Buffer[] = []
      for (let left = bytes; left > 0;) {
        const piece = await next(left)
        if (piece === undefined && pieces.length === 0) return undefined
        if (piece === undefined) throw cutShort()
        pieces.push(piece)
        left -= piece.length
      }
      return Buffer.concat(pieces)
    },
  }
}

function cutShort(): TarError {
  return new TarError('The archive ends in the middle')
}

function padded(bytes: number): number {
  return Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES
}

function upToZero(field: Buffer): string {
  const zero = field.indexOf(0)
  return field.toString('utf8', 0, zero < 0 ? field.length : zero)
}
