/** The transcription engine with its real model: what it hears of our own voice, what it needs, and when it is free. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile } from 'node:fs/promises'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { text as readText } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { removeFolder } from '../../../test/harness/leftover.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import {
  peakMemory,
  startTranscriptionEngine,
  type TranscriptionEngine,
} from '../../../test/lab/transcription-engine.ts'
import { needs } from '../../../test/needs.ts'
import { silentWav } from '../../base/sound/wav.ts'

needs('ffmpeg', 'build', 'npm')

/** A start needs a minute of CPU time, and takes ten minutes on a busy machine. */
const START_MS = 900_000
const MAX_MEMORY_MB = 500
const MAX_ERROR_RATE = 0.15
/** Transcribing half a minute of speech takes three seconds, and longer on a busy machine; an hour takes minutes. */
const FREE_MS = 15_000
const SHIP = path.join(import.meta.dirname, '../../../test/fixtures/sound/ship.flac')
const run = promisify(execFile)

let folder: string
let engine: TranscriptionEngine
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-sound-'))
  engine = await startTranscriptionEngine()
}, START_MS)
afterAll(async () => {
  await engine.stop()
  await removeFolder(folder)
})

const sentences = [
  'The harbor was quiet, and only a few boats moved over the water.',
  'She opened the window to let the cool evening air into the room.',
  'Our train leaves the station at half past seven every morning.',
  'The old bridge was closed because of the heavy rain last night.',
  'He bought fresh bread and two bottles of milk at the market.',
  'Please send me the report before the end of the week.',
  'The children played in the garden until it was dark.',
  'A small white dog followed us all the way to the village.',
  'The doctor said that he should rest for at least three days.',
  'They sailed along the coast and slept under the open sky.',
  'The museum is open from nine to five, except on Mondays.',
  'My grandmother taught me how to plant tomatoes in the spring.',
  'The meeting was long, but in the end we agreed on a plan.',
  'Nobody knew who had left the letter on the kitchen table.',
  'The mountain was covered with snow from top to bottom.',
  'You can pay with cash or with a card at the front desk.',
  'The teacher asked a question, and the whole class laughed.',
  'It takes about an hour to walk from here to the lake.',
  'The ship carried coffee and sugar across the wide ocean.',
  'We watched the stars and talked about the future.',
]

test(
  'P30: fewer than 15 % of the words of our own voice are wrong, in 20 sentences',
  async () => {
    const voice = await startVoice()
    try {
      let [errors, words] = [0, 0]
      for (const sentence of sentences) {
        const { text } = await engine.transcribe(await voice.speak(sentence))
        errors += wordErrors(wordsOf(sentence), wordsOf(text))
        words += wordsOf(sentence).length
      }
      expect(sentences).toHaveLength(20)
      process.stdout.write(`word error rate: ${((100 * errors) / words).toFixed(1)} %\n`)
      expect(errors / words).toBeLessThan(MAX_ERROR_RATE)
    } finally {
      await voice.stop()
    }
  },
  START_MS,
)

describe('P33: sound without words', () => {
  test('gives an empty text', async () => {
    expect(await engine.transcribe(silentWav(10))).toMatchObject({ status: 200, text: '' })
  })

  test('that is damaged in the middle is refused, and the engine goes on', { timeout: START_MS }, async () => {
    const flac = await sound('damaged.flac', ['-stream_loop', '3', '-i', SHIP])
    flac.fill(0x55, flac.length - 4_000, flac.length - 3_900)
    const { body } = await engine.transcribe(flac)
    // The pieces before the fault have been sent.
    expect(body).toContain('sound_damaged')
    expect(body).not.toContain('"type":"result"')
    expect((await engine.transcribe(await readFile(SHIP))).text).toMatch(/ship/i)
  })
})

describe('P32: an hour of sound', { timeout: START_MS }, () => {
  test('needs less than 500 MB', async () => {
    // A sentence every four minutes, and noise without a pause, which makes the longest pieces.
    await sound('minutes.flac', ['-i', SHIP, '-af', 'apad=whole_dur=240', '-ar', '24000', '-ac', '2'])
    const hour = await sound('hour.flac', ['-stream_loop', '14', '-i', path.join(folder, 'minutes.flac')])
    const { status, body, text } = await engine.transcribe(hour)
    expect([status, Number(/"ms":(\d+)/.exec(body)?.[1])]).toEqual([200, 3_600_000])
    expect(text.match(/the ship left the harbor/gi)).toHaveLength(15)
    const noise = ['-f', 'lavfi', '-i', 'anoisesrc=duration=31:amplitude=0.3:seed=1:sample_rate=48000']
    expect((await engine.transcribe(await sound('noise.flac', noise))).status).toBe(200)
    const peak = await peakMemory(engine.pid)
    process.stdout.write(`peak memory: ${Math.round(peak)} MB\n`)
    expect(peak).toBeLessThan(MAX_MEMORY_MB)
  })

  test('no longer takes time once its clients have left: within one piece, and in silence', async () => {
    const speech = await sound('speech.flac', ['-stream_loop', '300', '-i', SHIP])
    const silence = await sound('silence.flac', ['-f', 'lavfi', '-i', 'anullsrc=cl=stereo:r=48000', '-t', '3600'])
    for (const recording of [speech, silence]) {
      const leaving = new AbortController()
      const opened = [0, 1].map(() => engine.open(recording, leaving.signal))
      for (const one of opened) one.catch(() => {})
      await waitFor('both to run', async () => (await running()) === 2)
      if (recording === speech) await Promise.all(opened.map(async (one) => readSome(await one)))
      const leftAt = performance.now()
      leaving.abort()
      // A client may leave before the head of its answer, which fails its request.
      await Promise.allSettled(opened)
      await waitFor('the engine to be free', async () => (await running()) === 0)
      expect(performance.now() - leftAt).toBeLessThan(FREE_MS)
    }
    expect((await engine.transcribe(await readFile(SHIP))).text).toMatch(/ship/i)
  })
})

/** A file that ffmpeg makes of its input. */
async function sound(name: string, input: readonly string[]): Promise<Buffer> {
  const file = path.join(folder, name)
  await run('ffmpeg', ['-v', 'error', '-y', ...input, file])
  return readFile(file)
}

async function running(): Promise<number> {
  return Number(/^berth_engine_requests_processing (\d+)$/m.exec(await engine.get('/metrics'))?.[1])
}

async function readSome(response: http.IncomingMessage): Promise<void> {
  // The request is aborted later, which is an error of its answer.
  response.on('error', () => {})
  await once(response, 'data')
}

function wordsOf(text: string): string[] {
  const plain = text.toLowerCase().replaceAll(/[^a-z' ]/g, ' ')
  return plain.split(' ').filter((word) => word !== '')
}

/** Words that have to be replaced, added or removed to get from one text to the other. */
function wordErrors(one: readonly string[], other: readonly string[]): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at)
  for (const [line, word] of one.entries()) {
    const next = [line + 1]
    for (const [at, candidate] of other.entries()) {
      const replaced = (row[at] ?? 0) + (word === candidate ? 0 : 1)
      next.push(Math.min(replaced, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1))
    }
    row = next
  }
  return row.at(-1) ?? 0
}

interface Voice {
  /** Returns an MP3 file. */
  speak(text: string): Promise<Buffer>
  stop(): Promise<void>
}

async function startVoice(): Promise<Voice> {
  const socketPath = path.join(folder, 'voice.sock')
  const start = JSON.stringify({ model: 'voice', socketPath, threads: 1, queue: 1 })
  const program = path.join(path.dirname(inject('serverBundle')), 'speech-engine.mjs')
  const child = spawn(process.execPath, [program, start], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  await new Promise<void>((resolve, reject) => {
    createInterface(child.stdout).on('line', (line) => line.includes('"ready"') && resolve())
    void ended.then(([code]) => reject(new Error(`the voice ended with ${String(code)}`)))
  })
  return {
    speak: async (text) => {
      const request = http.request({ socketPath, method: 'POST', path: '/v1/audio/generation' })
      request.end(JSON.stringify({ text }))
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      const { audio } = JSON.parse(await readText(response)) as { audio: string }
      return Buffer.from(audio, 'base64')
    },
    stop: async () => {
      child.kill('SIGKILL')
      await ended
    },
  }
}
