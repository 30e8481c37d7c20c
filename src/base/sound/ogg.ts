/**
 * Ogg files with Opus: their packets and their length, which is the sum of the packets. Positions in the pages only
 * remove what the encoder added before the first and after the last sample.
 */
import type { SoundFault, SoundLength } from './sound-length.ts'

/** Opus always decodes to this rate. */
const OPUS_RATE = 48_000
const HEADER_BYTES = 27
const MAX_SEGMENT = 255
/** The longest packet. */
const MAX_PACKET_SAMPLES = 5_760
const MAX_CHANNELS = 8

export interface OpusSound extends SoundLength {
  readonly channels: number
  /** null: a single stream of one or two channels. */
  readonly mapping: { readonly streams: number; readonly coupled: number; readonly table: readonly number[] } | null
  /** The number of samples to skip at the start. */
  readonly skipped: number
  readonly packets: readonly Buffer[]
}

interface Page {
  readonly segments: Buffer
  readonly body: Buffer
  readonly isContinued: boolean
  readonly isFirst: boolean
  readonly serial: number
  /** undefined: no packet ends on the page. */
  readonly position: bigint | undefined
  readonly bytes: Buffer
}

export function readOpus(bytes: Buffer): OpusSound | SoundFault {
  const packets: Buffer[] = []
  const lengths = new Lengths()
  let partial: Buffer[] = []
  let head: Omit<OpusSound, 'packets' | 'samples' | 'sampleRate'> | undefined
  let serial: number | undefined
  let count = 0
  for (let at = 0; at < bytes.length;) {
    const page = readPage(bytes, at)
    if (page === undefined) return { fault: 'damaged' }
    at += page.bytes.length
    serial ??= page.serial
    if (page.serial !== serial || (page.isFirst && count > 0))
      return { fault: 'format', name: 'Ogg with several streams' }
    if (page.isContinued !== partial.length > 0) return { fault: 'damaged' }
    let from = 0
    let samples = 0
    for (const size of page.segments) {
      partial.push(page.body.subarray(from, from + size))
      from += size
      if (size === MAX_SEGMENT) continue
      const packet = Buffer.concat(partial)
      partial = []
      count += 1
      if (count === 1) head = readHead(packet)
      if (count <= 2) continue
      const length = samplesOf(packet)
      if (length === undefined) return { fault: 'damaged' }
      samples += length
      packets.push(packet)
    }
    if (count > 2) lengths.add(samples, page.position)
  }
  const samples = head === undefined ? undefined : lengths.total(head.skipped)
  if (head === undefined || samples === undefined || partial.length > 0) return { fault: 'damaged' }
  return { ...head, packets, samples, sampleRate: OPUS_RATE }
}

/** Whether a page has a wrong checksum. Otherwise sound that was never recorded would be transcribed. */
export function hasDamagedPage(bytes: Buffer): boolean {
  for (let at = 0; at < bytes.length;) {
    const page = readPage(bytes, at)
    if (page === undefined || checksumOf(page.bytes) !== page.bytes.readUInt32LE(22)) return true
    at += page.bytes.length
  }
  return false
}

/** Sums up the packets by page, and removes the samples that the positions exclude. */
class Lengths {
  #sum = 0
  #ofLastPage = 0
  /** The position before the first packet. */
  #origin: bigint | undefined
  #last: bigint | undefined

  add(samples: number, position: bigint | undefined): void {
    this.#sum += samples
    if (samples > 0) this.#ofLastPage = samples
    if (position === undefined) return
    const before = position - BigInt(this.#sum)
    this.#origin ??= before > 0n ? before : 0n
    this.#last = position
  }

  /** undefined: the positions exclude more samples than the last page has. */
  total(skipped: number): number | undefined {
    if (this.#last === undefined) return undefined
    const end = Math.min(Number(this.#last - (this.#origin ?? 0n)), this.#sum)
    if (end < this.#sum - this.#ofLastPage) return undefined
    return Math.max(0, end - skipped)
  }
}

function readPage(bytes: Buffer, at: number): Page | undefined {
  if (at + HEADER_BYTES > bytes.length || bytes.toString('latin1', at, at + 4) !== 'OggS') return undefined
  const segmentsEnd = at + HEADER_BYTES + bytes.readUInt8(at + 26)
  const segments = bytes.subarray(at + HEADER_BYTES, segmentsEnd)
  const end = segmentsEnd + segments.reduce((sum, size) => sum + size, 0)
  if (end > bytes.length) return undefined
  const flags = bytes.readUInt8(at + 5)
  const position = bytes.readBigInt64LE(at + 6)
  return {
    segments,
    body: bytes.subarray(segmentsEnd, end),
    isContinued: (flags & 1) === 1,
    isFirst: (flags & 2) === 2,
    serial: bytes.readUInt32LE(at + 14),
    position: position < 0n ? undefined : position,
    bytes: bytes.subarray(at, end),
  }
}

function readHead(packet: Buffer): Omit<OpusSound, 'packets' | 'samples' | 'sampleRate'> | undefined {
  if (packet.length < 19) return undefined
  const channels = packet.readUInt8(9)
  const skipped = packet.readUInt16LE(10)
  const family = packet.readUInt8(18)
  if (channels === 0 || channels > MAX_CHANNELS) return undefined
  if (family === 0) return channels <= 2 ? { channels, mapping: null, skipped } : undefined
  if (packet.length < 21 + channels) return undefined
  const [streams, coupled] = [packet.readUInt8(19), packet.readUInt8(20)]
  const table = [...packet.subarray(21, 21 + channels)]
  if (streams === 0 || coupled > streams || table.some((one) => one !== 255 && one >= streams + coupled)) {
    return undefined
  }
  return { channels, mapping: { streams, coupled, table }, skipped }
}

/**
 * The number of samples follows from the first byte of a packet, and for some packets from the number of frames in the
 * second.
 */
function samplesOf(packet: Buffer): number | undefined {
  const first = packet[0]
  if (first === undefined) return undefined
  const config = first >>> 3
  const frame =
    config < 12 ? [480, 960, 1_920, 2_880][config % 4] : config < 16 ? [480, 960][config % 2] : 120 * 2 ** (config % 4)
  const code = first & 3
  const frames = code === 0 ? 1 : code < 3 ? 2 : (packet[1] ?? 0) & 0x3f
  const samples = (frame ?? 0) * frames
  return samples === 0 || samples > MAX_PACKET_SAMPLES ? undefined : samples
}

const CHECKSUM_AT = 22

/** CRC-32 with the polynomial 0x04c11db7, unreflected, over the page with a zero for the checksum itself. */
function checksumOf(page: Buffer): number {
  let sum = 0
  for (let at = 0; at < page.length; at += 1) {
    const byte = at >= CHECKSUM_AT && at < CHECKSUM_AT + 4 ? 0 : (page[at] ?? 0)
    sum = ((sum << 8) ^ (checksums[((sum >>> 24) ^ byte) & 0xff] ?? 0)) >>> 0
  }
  return sum
}

const checksums = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte << 24
  for (let bit = 0; bit < 8; bit += 1) sum = sum < 0 ? (sum << 1) ^ 0x04c11db7 : sum << 1
  return sum >>> 0
})
