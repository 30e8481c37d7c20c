/** The writer of each format. */
import { assertNever } from '../../base/assert-never.ts'
import type { OwnAudioFormat } from '../../contract/audio-format.ts'
import type { AudioWriter } from './audio-writer.ts'
import { FlacWriter } from './flac.ts'
import { Mp3Writers } from './mp3.ts'
import { OpusWriter } from './opus.ts'
import { PcmWriter, WavWriter } from './pcm.ts'
import type { Kbps } from './voice.ts'

export class AudioWriters {
  readonly #mp3: Mp3Writers

  static async load(): Promise<AudioWriters> {
    return new AudioWriters(await Mp3Writers.load())
  }

  private constructor(mp3: Mp3Writers) {
    this.#mp3 = mp3
  }

  async open(format: OwnAudioFormat, kbps: Kbps): Promise<AudioWriter> {
    switch (format) {
      case 'mp3':
        return this.#mp3.open(kbps)
      case 'opus':
        return new OpusWriter()
      case 'flac':
        return new FlacWriter()
      case 'wav':
        return new WavWriter()
      case 'pcm':
        return new PcmWriter()
      default:
        return assertNever(format)
    }
  }
}
