/**
 * Sound files: their format, from their first bytes, and their length. The length determines the price, so it is
 * counted from the frames without decoding them: it must be known before a model starts, and a header in the file must
 * not be able to lower it.
 */
import { readFlac } from './flac.ts'
import { readMp3 } from './mp3.ts'
import { readOpus } from './ogg.ts'
import type { SoundFault, SoundLength } from './sound-length.ts'
import { readWav } from './wav.ts'

export type SoundFormat = 'wav' | 'mp3' | 'flac' | 'opus'

export interface Sound extends SoundLength {
  readonly format: SoundFormat
}

const damaged: SoundFault = { fault: 'damaged' }

/**
 * The range of sample rates in sound files. A rate outside of it means damage: a low one would make a short file last
 * for days.
 */
const MIN_RATE = 4_000
const MAX_RATE = 768_000

export function measureSound(bytes: Buffer): Sound | SoundFault {
  const format = formatOf(bytes)
  if (typeof format !== 'string') return format
  const length = readers[format](bytes)
  if ('fault' in length) return length
  const { samples, sampleRate } = length
  if (sampleRate < MIN_RATE || sampleRate > MAX_RATE || samples === 0) return damaged
  return { format, samples, sampleRate }
}

/** Rounded down. */
export function millisecondsOf({ samples, sampleRate }: SoundLength): number {
  return Math.floor((samples * 1_000) / sampleRate)
}

const readers: Readonly<Record<SoundFormat, (bytes: Buffer) => SoundLength | SoundFault>> = {
  wav: readWav,
  mp3: (bytes) => readMp3(bytes) ?? damaged,
  flac: readFlac,
  opus: readOpus,
}

/** The first bytes decide, because file names and types in headers are often wrong. */
function formatOf(bytes: Buffer): SoundFormat | SoundFault {
  const text = (from: number, length: number): string => bytes.toString('latin1', from, from + length)
  if (text(0, 4) === 'RIFF' && text(8, 4) === 'WAVE') return 'wav'
  if (text(0, 4) === 'fLaC') return 'flac'
  if (text(0, 4) === 'OggS') {
    // The first packet follows the segment table of its page.
    const packet = 27 + (bytes[26] ?? 0)
    if (text(packet, 8) === 'OpusHead') return 'opus'
    if (text(packet, 7) === '\x01vorbis') return { fault: 'format', name: 'Ogg Vorbis' }
    return { fault: 'format', name: text(packet + 1, 4) === 'FLAC' ? 'Ogg FLAC' : 'Ogg' }
  }
  const other = otherFormats.find(([at, magic]) => text(at, magic.length) === magic)
  if (other !== undefined) return { fault: 'format', name: other[2] }
  // AAC has the same first bits as MP3, and zero for the layer.
  if (bytes[0] === 0xff && ((bytes[1] ?? 0) & 0xf6) === 0xf0) return { fault: 'format', name: 'AAC' }
  if (readMp3(bytes.subarray(0, MP3_PROBE_BYTES)) !== undefined) return 'mp3'
  // A picture in the tag may be longer than the bytes read here.
  return text(0, 3) === 'ID3' ? 'mp3' : { fault: 'format', name: undefined }
}

const MP3_PROBE_BYTES = 65_536

const otherFormats: ReadonlyArray<readonly [at: number, magic: string, name: string]> = [
  [4, 'ftyp', 'm4a or MP4'],
  [0, '\x1a\x45\xdf\xa3', 'WebM or Matroska'],
  [0, 'FORM', 'AIFF'],
  [0, 'caff', 'CAF'],
  [0, '#!AMR', 'AMR'],
  [0, '\x30\x26\xb2\x75', 'WMA'],
  [0, 'RF64', 'RF64'],
]
