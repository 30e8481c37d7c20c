/**
 * FLAC: each block has the differences between the samples and a simple prediction, as Rice codes. About half as large
 * as WAV, and exact.
 */
import type { AudioWriter } from './audio-writer.ts'
import { BitWriter } from './bit-writer.ts'
import { join, to16Bit } from './samples.ts'
import { SAMPLE_RATE } from './voice.ts'

const BLOCK_SAMPLES = 4_096
const MAX_ORDER = 4
/** The largest parameter with four bits; 15 means no code. */
const MAX_RICE = 14
const BITS = 16

export class FlacWriter implements AudioWriter {
  #waiting: number[] = []
  #frames = 0
  #hasHeader = false

  encode(samples: Float32Array): Uint8Array<ArrayBuffer> {
    const parts = this.#hasHeader ? [] : [header()]
    this.#hasHeader = true
    for (const sample of samples) {
      this.#waiting.push(to16Bit(sample))
      if (this.#waiting.length === BLOCK_SAMPLES) parts.push(this.#takeFrame())
    }
    return join(parts)
  }

  finish(): Uint8Array<ArrayBuffer> {
    const parts = this.#hasHeader ? [] : [header()]
    if (this.#waiting.length > 0) parts.push(this.#takeFrame())
    return join(parts)
  }

  drop(): void {}

  #takeFrame(): Uint8Array {
    const samples = Int32Array.from(this.#waiting)
    this.#waiting = []
    return writeFrame(samples, this.#frames++)
  }
}

/** The marker and the one required block. The number of samples and their digest are unknown while it is written: 0. */
function header(): Uint8Array {
  const bits = new BitWriter()
  bits.bytes(Buffer.from('fLaC'))
  bits.write(0x80, 8)
  bits.write(34, 24)
  bits.write(BLOCK_SAMPLES, 16)
  bits.write(BLOCK_SAMPLES, 16)
  bits.write(0, 24)
  bits.write(0, 24)
  bits.write(SAMPLE_RATE, 20)
  bits.write(0, 3)
  bits.write(BITS - 1, 5)
  bits.write(0, 4)
  bits.bytes(new Uint8Array(4 + 16))
  return bits.finish()
}

function writeFrame(samples: Int32Array, index: number): Uint8Array {
  const isWhole = samples.length === BLOCK_SAMPLES
  const bits = new BitWriter()
  // The sync code of blocks of one size; their size; 44.1 kHz; one channel of 16 bits.
  bits.write(0xfff8, 16)
  bits.write(isWhole ? 0b1100 : 0b0111, 4)
  bits.write(0b1001, 4)
  bits.write(0b0000_100_0, 8)
  bits.bytes(Buffer.from(utf8Number(index)))
  if (!isWhole) bits.write(samples.length - 1, 16)
  bits.write(crc8(bits.soFar()), 8)
  writeSamples(bits, samples)
  const body = bits.finish()
  const sum = crc16(body)
  return Uint8Array.from([...body, sum >>> 8, sum & 0xff])
}

function writeSamples(bits: BitWriter, samples: Int32Array): void {
  const { order, differences, cost } = choosePrediction(samples)
  bits.write(0b0_001_000_0 | (order << 1), 8)
  for (let i = 0; i < order; i++) bits.write((samples[i] ?? 0) & 0xffff, BITS)
  const mean = cost / Math.max(1, samples.length - order)
  const rice = Math.min(MAX_RICE, Math.max(0, Math.floor(Math.log2(mean * 2 + 1))))
  // One partition with a parameter of four bits.
  bits.write(0, 6)
  bits.write(rice, 4)
  for (let i = order; i < samples.length; i++) {
    const difference = differences[i] ?? 0
    const code = difference >= 0 ? difference * 2 : difference * -2 - 1
    bits.zeros(code >>> rice)
    bits.write(1, 1)
    bits.write(code & ((1 << rice) - 1), rice)
  }
}

/** A prediction of order n continues the polynomial through the n samples before. */
function choosePrediction(samples: Int32Array): { order: number; differences: Int32Array; cost: number } {
  let differences = samples
  let best = { order: 0, differences, cost: costOf(samples, 0) }
  for (let order = 1; order <= Math.min(MAX_ORDER, samples.length - 1); order++) {
    const next = new Int32Array(samples.length)
    for (let i = order; i < samples.length; i++) next[i] = (differences[i] ?? 0) - (differences[i - 1] ?? 0)
    differences = next
    const cost = costOf(differences, order)
    if (cost < best.cost) best = { order, differences, cost }
  }
  return best
}

function costOf(differences: Int32Array, from: number): number {
  let sum = 0
  for (let i = from; i < differences.length; i++) sum += Math.abs(differences[i] ?? 0)
  return sum
}

/** A number in the form in which UTF-8 writes characters. */
function utf8Number(value: number): number[] {
  if (value < 0x80) return [value]
  let count = 1
  while (value >= 2 ** (5 * count + 6)) count += 1
  const lead = ((0xff00 >>> (count + 1)) & 0xff) | (value >>> (6 * count))
  const tail = Array.from({ length: count }, (_, i) => 0x80 | ((value >>> (6 * (count - 1 - i))) & 0x3f))
  return [lead, ...tail]
}

function crc8(bytes: Uint8Array): number {
  return bytes.reduce((sum, byte) => {
    let value = sum ^ byte
    for (let i = 0; i < 8; i++) value = value & 0x80 ? ((value << 1) ^ 0x07) & 0xff : value << 1
    return value
  }, 0)
}

const crc16Table = Uint16Array.from({ length: 256 }, (_, index) => {
  let value = index << 8
  for (let i = 0; i < 8; i++) value = value & 0x8000 ? ((value << 1) ^ 0x8005) & 0xffff : value << 1
  return value
})

function crc16(bytes: Uint8Array): number {
  return bytes.reduce((sum, byte) => ((sum << 8) & 0xffff) ^ (crc16Table[(sum >>> 8) ^ byte] ?? 0), 0)
}
