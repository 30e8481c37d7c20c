/** Pages of an Ogg stream with one logical stream (RFC 3533). */
import { join } from './samples.ts'

/** One second of sound in packets of 20 ms: what a page costs is small beside it. */
const PACKETS_PER_PAGE = 50
const SEGMENT_BYTES = 255
const HEADER_BYTES = 27
const SERIAL = 1
const FIRST = 2
const LAST = 4

export interface PageTimes {
  /** Samples before the first packet. */
  readonly before: number
  /** Samples of each packet. */
  readonly each: number
  readonly isLast: boolean
  /** The samples up to the end of the sound. Absent: the sound ends with the last packet. */
  readonly end: number | undefined
}

export class OggPages {
  #pages = 0

  writeAll(packets: readonly Uint8Array[], { before, each, isLast, end }: PageTimes): Uint8Array {
    const pages: Uint8Array[] = []
    for (let at = 0; at < packets.length; at += PACKETS_PER_PAGE) {
      const next = Math.min(at + PACKETS_PER_PAGE, packets.length)
      const isEnd = isLast && next === packets.length
      const time = before + next * each
      pages.push(this.write(packets.slice(at, next), isEnd ? (end ?? time) : time, isEnd))
    }
    return join(pages)
  }

  /** Writes one page. `time`: the samples up to its end. */
  write(packets: readonly Uint8Array[], time: number, isLast = false): Uint8Array {
    const segments = packets.flatMap((packet) => {
      const full = Math.floor(packet.length / SEGMENT_BYTES)
      return [...Array.from({ length: full }, () => SEGMENT_BYTES), packet.length % SEGMENT_BYTES]
    })
    const header = Buffer.alloc(HEADER_BYTES)
    header.write('OggS', 0, 'latin1')
    header.writeUInt8((this.#pages === 0 ? FIRST : 0) | (isLast ? LAST : 0), 5)
    header.writeBigUInt64LE(BigInt(time), 6)
    header.writeUInt32LE(SERIAL, 14)
    header.writeUInt32LE(this.#pages, 18)
    header.writeUInt8(segments.length, 26)
    this.#pages += 1
    const page = Buffer.concat([header, Uint8Array.from(segments), ...packets])
    page.writeUInt32LE(checksum(page), 22)
    return page
  }
}

const table = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index << 24
  for (let i = 0; i < 8; i++) value = value & 0x8000_0000 ? (value << 1) ^ 0x04c1_1db7 : value << 1
  return value >>> 0
})

function checksum(bytes: Uint8Array): number {
  return bytes.reduce((sum, byte) => ((sum << 8) ^ (table[((sum >>> 24) ^ byte) & 0xff] ?? 0)) >>> 0, 0)
}
