/** MP3 files: their length, from their frame headers. */

export interface Mp3Facts {
  readonly seconds: number
  /** The number of samples per channel. */
  readonly samples: number
  readonly sampleRate: number
}

const rates = [44_100, 48_000, 32_000]
/** kbit/s of layer III: MPEG 1, and MPEG 2 and 2.5. */
const kbits1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
const kbits2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]
/** Tags can stand before, between and after frames. A file with more other bytes than this is not an MP3. */
const MAX_OTHER_BYTES = 262_144

interface Frame {
  readonly samples: number
  readonly sampleRate: number
  readonly bytes: number
  /** The length of the part before the sound's own data. */
  readonly sideBytes: number
}

/** undefined: no whole layer III frame, or too much else. */
export function readMp3(bytes: Buffer): Mp3Facts | undefined {
  let at = startOfFrames(bytes)
  let samples = 0
  let sampleRate = 0
  let otherBytes = 0
  while (at + 4 <= bytes.length) {
    const frame = readFrame(bytes.readUInt32BE(at))
    const isSame = frame !== undefined && (sampleRate === 0 || frame.sampleRate === sampleRate)
    // Random bytes can look like the start of a frame, so the first frame counts only if another one follows it.
    if (!isSame || (sampleRate === 0 && !isFollowed(bytes, at, frame))) {
      at += 1
      otherBytes += 1
      if (otherBytes > MAX_OTHER_BYTES) return undefined
      continue
    }
    if (at + frame.bytes > bytes.length) break
    sampleRate = frame.sampleRate
    if (samples > 0 || !isInfo(bytes, at, frame)) samples += frame.samples
    at += frame.bytes
  }
  return samples === 0 ? undefined : { seconds: samples / sampleRate, samples, sampleRate }
}

/** The position after an ID3v2 tag, whose length has seven bits per byte. */
function startOfFrames(bytes: Buffer): number {
  if (bytes.length < 10 || bytes.toString('latin1', 0, 3) !== 'ID3') return 0
  return 10 + bytes.subarray(6, 10).reduce((size, byte) => (size << 7) | (byte & 0x7f), 0)
}

function isFollowed(bytes: Buffer, at: number, { bytes: length, sampleRate }: Frame): boolean {
  const next = at + length
  if (next === bytes.length) return true
  return next + 4 <= bytes.length && readFrame(bytes.readUInt32BE(next))?.sampleRate === sampleRate
}

/** Whether the first frame describes the file, as encoders write it, and contains no sound. */
function isInfo(bytes: Buffer, at: number, { sideBytes }: Frame): boolean {
  const name = bytes.toString('latin1', at + 4 + sideBytes, at + 8 + sideBytes)
  return name === 'Xing' || name === 'Info'
}

function readFrame(header: number): Frame | undefined {
  const version = (header >>> 19) & 3
  const isLayer3 = ((header >>> 17) & 3) === 1
  const rate = rates[(header >>> 10) & 3]
  const kbit = (version === 3 ? kbits1 : kbits2)[(header >>> 12) & 15]
  if (header >>> 21 !== 0x7ff || version === 1 || !isLayer3 || rate === undefined || kbit === undefined || kbit === 0) {
    return undefined
  }
  const sampleRate = version === 3 ? rate : version === 2 ? rate / 2 : rate / 4
  const samples = version === 3 ? 1_152 : 576
  const bytes = Math.floor((samples / 8) * ((kbit * 1_000) / sampleRate)) + ((header >>> 9) & 1)
  const isMono = ((header >>> 6) & 3) === 3
  const sideBytes = version === 3 ? (isMono ? 17 : 32) : isMono ? 9 : 17
  return { samples, sampleRate, bytes, sideBytes }
}
