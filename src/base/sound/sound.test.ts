import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { measureSound, millisecondsOf } from './sound.ts'
import { silentWav } from './wav.ts'

const folder = path.join(import.meta.dirname, '../../../test/fixtures/sound')
const fixture = (name: string): Buffer => readFileSync(path.join(folder, name))

/** 3.5 s were recorded, which MP3 and Opus pad to whole frames. */
const lengths = { 'ship.flac': [56_000, 16_000], 'ship.opus': [168_000, 48_000], 'ship.mp3': [57_600, 16_000] } as const

describe('P31: the length of a recording', () => {
  test.each(Object.entries(lengths))('of %s is that of its samples', (name, [samples, sampleRate]) => {
    const format = name.slice(name.indexOf('.') + 1)
    expect(measureSound(fixture(name))).toEqual({ format, samples, sampleRate })
  })

  test('of a WAV file is that of its data, whatever a program that did not know it wrote there', () => {
    const wav = silentWav(2)
    expect(measureSound(wav)).toEqual({ format: 'wav', samples: 32_000, sampleRate: 16_000 })
    for (const unknown of [0, 0xff_ff_ff_ff]) {
      wav.writeUInt32LE(unknown, 40)
      expect(measureSound(wav)).toMatchObject({ samples: 32_000 })
    }
  })

  test('is rounded down to milliseconds', () => {
    expect(millisecondsOf({ samples: 44_144, sampleRate: 44_100 })).toBe(1_000)
  })

  test('does not follow a header that promises less', () => {
    const flac = fixture('ship.flac')
    // The number of samples is in the last four bits of one byte and four more.
    flac.writeUInt32BE(16, 22)
    expect(measureSound(flac)).toEqual({ fault: 'damaged' })
    // 0 stands for a stream of unknown length.
    flac.writeUInt32BE(0, 22)
    expect(measureSound(flac)).toMatchObject({ samples: 56_000 })
    const opus = fixture('ship.opus')
    const lastPage = opus.lastIndexOf('OggS')
    opus.writeBigInt64LE(400n, lastPage + 6)
    expect(measureSound(opus)).toEqual({ fault: 'damaged' })
  })
})

describe('P33: a file', () => {
  test.each(['ship.flac', 'ship.opus'])('that was cut off is damaged: %s', (name) => {
    const bytes = fixture(name)
    expect(measureSound(bytes.subarray(0, Math.floor(bytes.length / 2)))).toEqual({ fault: 'damaged' })
  })

  test('of WAV that was cut off, has no samples or an impossible rate is damaged', () => {
    const wav = silentWav(1)
    expect(measureSound(wav.subarray(0, 20_000))).toEqual({ fault: 'damaged' })
    expect(measureSound(silentWav(0))).toEqual({ fault: 'damaged' })
    wav.writeUInt32LE(1, 24)
    expect(measureSound(wav)).toEqual({ fault: 'damaged' })
  })

  test.each([
    ['\0\0\0 ftypM4A ', 'm4a or MP4'],
    ['\x1a\x45\xdf\xa3 webm', 'WebM or Matroska'],
    ['FORM\0\0\0\0AIFF', 'AIFF'],
    ['\xff\xf1\x50\x80\x01', 'AAC'],
    ['Not a recording at all.', undefined],
    ['', undefined],
  ])('of another format is named: %j', (bytes, name) => {
    expect(measureSound(Buffer.from(bytes, 'latin1'))).toEqual({ fault: 'format', name })
  })
})
