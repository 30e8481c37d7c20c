/** P29: the clients of OpenAI, for Node and for Python, transcribe with the real model in the built-in engine. */
import { execFile } from 'node:child_process'
import { createReadStream } from 'node:fs'
import { copyFile, mkdtemp, readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { removeFolder } from '../harness/leftover.ts'
import { caller, type Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { startServerProcess, type ServerProcess } from '../lab/process.ts'
import { pythonClients, whyNoPython } from '../lab/python-packages.ts'
import { moonshineFiles } from '../lab/transcription-engine.ts'
import { needs } from '../needs.ts'

needs('build', 'npm', 'python', 'ffmpeg')

const STARTUP_MS = 10 * 60_000
const model = 'house/moonshine'
const run = promisify(execFile)
const fixtures = path.join(import.meta.dirname, '../fixtures/sound')
/** With their milliseconds: MP3 is padded to whole frames. */
const recordings = { 'ship.wav': 3_500, 'ship.mp3': 3_600, 'ship.flac': 3_500, 'ship.opus': 3_500 }
/** Of each recording, as the model hears it. */
const WORDS = /^the ship left the harbor before the sun came up\b/i

type Answer = string | { text: string; usage: { type: string; seconds: number } }
interface Verbose {
  readonly task: string
  readonly language: string
  readonly duration: number
  readonly text: string
  readonly segments: ReadonlyArray<{ id: number; start: number; end: number; text: string }>
}
interface Formats {
  readonly json: Answer
  readonly text: string
  readonly srt: string
  readonly vtt: string
  readonly verbose_json: Verbose
  readonly stream: ReadonlyArray<{ type: string; delta?: string; text?: string }>
}

let folder: string
let server: ServerProcess
let key: string
let call: Call
let client: OpenAI
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-transcription-'))
  const dataDir = path.join(folder, 'data')
  const env = { BERTH_DATA_DIR: dataDir, BERTH_LOCAL_ENGINES: 'true', BERTH_DEFAULT_MODELS: 'none' }
  server = await startServerProcess(env)
  for (const name of ['ship.mp3', 'ship.flac', 'ship.opus'])
    await copyFile(path.join(fixtures, name), path.join(folder, name))
  await run('ffmpeg', ['-v', 'error', '-i', path.join(folder, 'ship.flac'), path.join(folder, 'ship.wav')])
  key = (await readFile(path.join(dataDir, 'demo.key'), 'utf8')).trim()
  call = caller(server.url, key)
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key, maxRetries: 0 })
  const operator = caller(server.url, (await readFile(path.join(dataDir, 'operator.key'), 'utf8')).trim())
  const files = Object.entries(moonshineFiles()).map(([file, at]) => ({
    source: `file:${at}`,
    file,
    bytes: null,
    sha256: null,
  }))
  const added = await operator('POST', '/v2/operator/models', {
    name: model,
    kind: 'transcription',
    engine: 'transcription',
    files,
    soundMsUsdPerMillion: '0.02',
  })
  if (added.status !== 200) throw new Error(`no model: ${JSON.stringify(added.body)}`)
  // It is loaded with the first request.
  const isReady = async (): Promise<boolean> => {
    const form = new FormData()
    form.set('model', model)
    form.set('file', new Blob([await readFile(path.join(folder, 'ship.wav'))]), 'ship.wav')
    return (await call('POST', '/v1/audio/transcriptions', form)).status === 200
  }
  await waitFor('the model answers', isReady, STARTUP_MS)
}, STARTUP_MS)
afterAll(async () => {
  await server.stop()
  await removeFolder(folder)
}, STARTUP_MS)

describe.each(Object.entries(recordings))('P29: %s', (name, ms) => {
  test('in all formats, by the client for Node', { timeout: STARTUP_MS }, async () => {
    const ask = <const Format extends 'json' | 'text' | 'srt' | 'vtt' | 'verbose_json'>(response_format: Format) =>
      client.audio.transcriptions.create({ model, file: createReadStream(path.join(folder, name)), response_format })
    const file = createReadStream(path.join(folder, name))
    const stream: Array<Formats['stream'][number]> = []
    for await (const event of await client.audio.transcriptions.create({ model, file, stream: true }))
      stream.push(event)
    const [json, text, srt] = [await ask('json'), await ask('text'), await ask('srt')]
    const answers = { json, text, srt, vtt: await ask('vtt'), verbose_json: await ask('verbose_json'), stream }
    expect(stream.length).toBeGreaterThan(1)
    expectFormats(answers as unknown as Formats, ms)
  })
})

test.skipIf(whyNoPython() !== undefined)(
  'P29: all of them in all formats, by the client for Python',
  { timeout: STARTUP_MS },
  async () => {
    const program = path.resolve('test/clients/transcription.py')
    const env = { PATH: process.env['PATH'], PYTHONPATH: await pythonClients() }
    const args = [program, `${server.url}/v1`, key, model, ...Object.keys(recordings)]
    const { stdout } = await run('python3', args, { cwd: folder, env })
    const answers = JSON.parse(stdout) as Record<string, Formats>
    expect(Object.keys(answers)).toEqual(Object.keys(recordings))
    for (const [name, ms] of Object.entries(recordings)) expectFormats(answers[name] as Formats, ms)
  },
)

function expectFormats({ json, text, srt, vtt, verbose_json: verbose, stream }: Formats, ms: number): void {
  expect(json).toMatchObject({ text: expect.stringMatching(WORDS) as string })
  expect(json).toMatchObject({ usage: { type: 'duration', seconds: ms / 1_000 } })
  const words = (json as Exclude<Answer, string>).text
  expect(text).toBe(`${words}\n`)
  expect(verbose).toMatchObject({ task: 'transcribe', language: 'english', duration: ms / 1_000, text: words })
  expectSubtitles(srt, ',', verbose)
  expect(vtt.startsWith('WEBVTT\n\n')).toBe(true)
  expectSubtitles(vtt.slice('WEBVTT\n\n'.length), '.', verbose)
  expect(stream.flatMap(({ delta }) => delta ?? []).join('')).toBe(words)
  expect(stream.at(-1)).toMatchObject({ type: 'transcript.text.done', text: words })
}

/** One cue per segment, in order, within the recording. */
function expectSubtitles(text: string, separator: ',' | '.', { segments, duration }: Verbose): void {
  const cues = text
    .trimEnd()
    .split('\n\n')
    .map((cue) => cue.split('\n').slice(separator === ',' ? 1 : 0))
  expect(cues.map(([, ...lines]) => lines.join(' '))).toEqual(segments.map((segment) => segment.text))
  let last = 0
  for (const [times = ''] of cues) {
    const pattern = new RegExp(
      String.raw`^(\d\d):(\d\d):(\d\d)[${separator}](\d{3}) --> (\d\d):(\d\d):(\d\d)[${separator}](\d{3})$`,
    )
    const [h1 = NaN, m1 = NaN, s1 = NaN, ms1 = NaN, h2 = NaN, m2 = NaN, s2 = NaN, ms2 = NaN] =
      pattern.exec(times)?.slice(1).map(Number) ?? []
    const [start, end] = [h1 * 3_600 + m1 * 60 + s1 + ms1 / 1_000, h2 * 3_600 + m2 * 60 + s2 + ms2 / 1_000]
    expect([start >= last, end > start, end <= duration]).toEqual([true, true, true])
    last = end
  }
  expect(segments.map(({ id }) => id)).toEqual(segments.map((_segment, at) => at))
}
