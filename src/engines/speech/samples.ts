/** Samples of sound in the forms of files. */

const MAX_16_BIT = 32_767

export function limit(sample: number): number {
  return Math.min(Math.max(sample, -1), 1)
}

export function to16Bit(sample: number): number {
  return Math.round(limit(sample) * MAX_16_BIT)
}

/** 16-bit little-endian. */
export function writePcm(samples: Float32Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(samples.length * 2)
  const view = new DataView(bytes.buffer)
  for (const [i, sample] of samples.entries()) view.setInt16(i * 2, to16Bit(sample), true)
  return bytes
}

/** Copies, so that the result can be transferred to another thread. */
export function join(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.concat(parts))
}
