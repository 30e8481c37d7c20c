/** Duration and sample rate of an MP3, from its frame headers: speech servers send nothing but the file. */

export interface Mp3Facts {
  readonly seconds: number
  readonly sampleRate: number
}

const rates = [44_100, 48_000, 32_000]
/** kbit/s of layer III: MPEG 1, and MPEG 2 and 2.5. */
const kbits1 = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320]
const kbits2 = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160]

/** undefined: no layer III frame found. */
export function readMp3(bytes: Buffer): Mp3Facts | undefined {
  let at = startOfFrames(bytes)
  let seconds = 0
  let sampleRate = 0
  while (at + 4 <= bytes.length) {
    const frame = readFrame(bytes.readUInt32BE(at))
    if (frame === undefined) {
      at += 1
      continue
    }
    seconds += frame.samples / frame.sampleRate
    sampleRate ||= frame.sampleRate
    at += frame.bytes
  }
  return sampleRate === 0 ? undefined : { seconds, sampleRate }
}

/** After an ID3v2 tag, whose length has seven bits per byte. */
function startOfFrames(bytes: Buffer): number {
  if (bytes.length < 10 || bytes.toString('latin1', 0, 3) !== 'ID3') return 0
  return 10 + bytes.subarray(6, 10).reduce((size, byte) => (size << 7) | (byte & 0x7f), 0)
}

function readFrame(header: number): { samples: number; sampleRate: number; bytes: number } | undefined {
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
  return { samples, sampleRate, bytes }
}
