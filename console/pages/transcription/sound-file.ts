/** Converts sound in formats that only the browser reads into one that every transcription model accepts. */

/** Formats that are sent unchanged. */
const TAKEN = /\.(wav|mp3|flac|ogg|opus)$/i
export const ACCEPTED = 'audio/*,video/mp4,video/webm,.wav,.mp3,.flac,.ogg,.opus,.m4a,.webm'

/** The sample rate of speech recognition: a higher one makes files larger and text no better. */
const SAMPLE_RATE = 16_000
const WAV_HEAD_BYTES = 44
const BYTES_PER_SAMPLE = 2

/** A file that the browser cannot read is sent unchanged, and the server names its fault. */
export async function takenForm(file: File): Promise<File> {
  if (TAKEN.test(file.name)) return file
  try {
    return await toWav(file, `${file.name.replace(/\.[^.]*$/, '')}.wav`)
  } catch (error) {
    if (error instanceof DOMException && error.name === 'EncodingError') return file
    throw error
  }
}

export async function toWav(sound: Blob, name: string): Promise<File> {
  // The context resamples decoded sound to its own rate.
  const context = new OfflineAudioContext(1, 1, SAMPLE_RATE)
  const decoded = await context.decodeAudioData(await sound.arrayBuffer())
  return new File([wavOf(mixed(decoded))], name, { type: 'audio/wav' })
}

function mixed(sound: AudioBuffer): Float32Array {
  const channels = Array.from({ length: sound.numberOfChannels }, (_, at) => sound.getChannelData(at))
  const [first = new Float32Array(0), ...others] = channels
  if (others.length === 0) return first
  return first.map((value, at) => others.reduce((sum, one) => sum + (one[at] ?? 0), value) / channels.length)
}

/** Writes one channel of 16-bit numbers. */
function wavOf(samples: Float32Array): ArrayBuffer {
  const bytes = samples.length * BYTES_PER_SAMPLE
  const buffer = new ArrayBuffer(WAV_HEAD_BYTES + bytes)
  const view = new DataView(buffer)
  const write = (at: number, text: string): void =>
    Array.from(text).forEach((character, index) => view.setUint8(at + index, character.charCodeAt(0)))
  write(0, 'RIFF')
  view.setUint32(4, WAV_HEAD_BYTES - 8 + bytes, true)
  write(8, 'WAVEfmt ')
  view.setUint32(16, 16, true)
  view.setUint16(20, 1, true)
  view.setUint16(22, 1, true)
  view.setUint32(24, SAMPLE_RATE, true)
  view.setUint32(28, SAMPLE_RATE * BYTES_PER_SAMPLE, true)
  view.setUint16(32, BYTES_PER_SAMPLE, true)
  view.setUint16(34, 8 * BYTES_PER_SAMPLE, true)
  write(36, 'data')
  view.setUint32(40, bytes, true)
  samples.forEach((sample, at) =>
    view.setInt16(WAV_HEAD_BYTES + at * BYTES_PER_SAMPLE, Math.max(-1, Math.min(1, sample)) * 0x7f_ff, true),
  )
  return buffer
}
