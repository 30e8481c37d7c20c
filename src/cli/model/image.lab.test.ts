/** `berth image` and `berth speak`: what they ask for, the file they write, and the file that they keep. */
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { serveModel, type TestModel } from '../../../test/harness/inference.ts'
import { grayPng, imageEvents, silentMp3 } from '../../../test/sim/model-server-answer.ts'
import { runCli } from '../program.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

const SIDE = 128
/** A nano-dollar a pixel and step, and a character. */
const pictures = { kind: 'image', contextTokens: null, maxOutputTokens: null, pixelStepUsdPerMillion: '0.001' }
const speech = { kind: 'speech', contextTokens: null, maxOutputTokens: null, characterUsdPerMillion: '0.001' }

let cli: CliTest
let painter: TestModel
let speaker: TestModel

beforeAll(async () => {
  cli = await startCliTest()
  const withoutTokens = { inputUsdPerMillion: undefined, outputUsdPerMillion: undefined }
  painter = await serveModel(cli.server, {
    name: 'house/painter',
    model: { ...withoutTokens, ...pictures },
    deployment: { protocol: 'txt2img' },
  })
  speaker = await serveModel(cli.server, { name: 'house/voice', model: { ...withoutTokens, ...speech } })
})
afterAll(async () => {
  await painter.upstream.close()
  await speaker.upstream.close()
  await cli.close()
})

const at = (name: string): string => path.join(cli.folder, name)
const small = ['--width', String(SIDE), '--height', String(SIDE), '--steps', '1', '--seed', '7']

function lastBody({ upstream }: TestModel): Record<string, unknown> {
  return JSON.parse(upstream.requests.at(-1)?.body.toString() ?? '{}') as Record<string, unknown>
}

describe('image', () => {
  test('writes the image, and prints file, seed, cost and id', async () => {
    const file = at('apple.png')
    const { code, out, error } = await cli.berth(['image', 'a', 'red', 'apple', '-o', file, ...small])
    expect({ code, error }).toEqual({ code: 0, error: '' })
    expect(await readFile(file)).toEqual(grayPng(SIDE, SIDE))
    expect(out.split('\n')).toEqual([
      `File     ${file}`,
      'Model    house/painter',
      'Seed     7',
      'Cost     <$0.0001',
      expect.stringMatching(/^Request {2}req_\w+$/),
      '',
    ])
  })

  test('accepts all parameters, and prints the same for --json', async () => {
    const file = at('options.png')
    const more = ['--cfg-scale', '2.5', '--negative', 'worms', '--model', 'house/painter']
    const reply = await cli.json('image', 'an apple', '-o', file, ...small, ...more)
    expect(reply).toMatchObject({ file, model: 'house/painter', seed: 7, costNanoUsd: SIDE * SIDE, notes: [] })
    expect(lastBody(painter)).toMatchObject({
      prompt: 'an apple',
      negative_prompt: 'worms',
      width: SIDE,
      height: SIDE,
      steps: 1,
      cfg_scale: 2.5,
      seed: 7,
    })
  })

  test('keeps an existing file before paying; --force replaces it', async () => {
    const file = at('kept.png')
    await writeFile(file, 'mine')
    const requests = painter.upstream.received
    const result = await cli.berth(['image', 'an apple', '-o', file, ...small])
    expect(result).toMatchObject({ code: 1, out: '', error: expect.stringContaining('or add --force.') })
    expect(await readFile(file, 'utf8')).toBe('mine')
    const nowhere = await cli.berth(['image', 'an apple', '-o', at('no/where.png'), ...small])
    expect(nowhere).toMatchObject({ code: 1, error: expect.stringContaining('create the folder first') })
    await mkdir(at('folder'))
    const folder = await cli.berth(['image', 'an apple', '-o', at('folder'), '--force', ...small])
    expect(folder).toMatchObject({ code: 1, error: expect.stringContaining('is a folder.') })
    expect(painter.upstream.received).toBe(requests)
    expect((await cli.berth(['image', 'an apple', '-o', file, '--force', ...small])).code).toBe(0)
    expect(await readFile(file)).toEqual(grayPng(SIDE, SIDE))
  })

  test('leaves no file when the image fails', async () => {
    const file = at('failed.png')
    painter.upstream.behaviour.fault = { kind: 'status', status: 500 }
    const { code, error } = await cli.berth(['image', 'an apple', '-o', file, ...small])
    painter.upstream.behaviour.fault = undefined
    expect(code).toBe(1)
    expect(error).toMatch(/^error: /)
    expect(existsSync(file)).toBe(false)
  })

  test.each([
    [['image', 'x'], "required option '-o, --output <file>' not specified"],
    [['image', ' ', '-o', 'x.png'], 'Example: berth image "a red apple" -o apple.png'],
    [['image', 'x', '-o', 'x.png', '--width', '64'], 'from 128 to 2496.'],
    [['image', 'x', '-o', 'x.png', '--steps', '0'], 'from 1 to 1000.'],
    [['speak', 'x', '-o', 'x.mp3', '--speed', '9'], 'from 0.1 to 5.'],
    [['speak', 'x', '-o', 'x.mp3', '--voice', 'a', '--speaker', 'b'], 'cannot be used with'],
  ])('%j is wrong usage: exit code 2, and nothing on the output', async (args, message) => {
    const { code, out, error } = await cli.berth(args)
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(error).toContain(message)
  })

  test('draws and removes a progress bar in a terminal', async () => {
    const front = await startPainterFront()
    let [out, error] = ['', '']
    const args = ['image', 'an apple', '-o', at('bar.png'), ...small, '--key', cli.server.demoKey]
    const code = await runCli(args, {
      env: cli.environment({ BERTH_URL: front.url }),
      color: { out: true, error: true },
      write: (text) => void (out += text),
      writeError: (text) => void (error += text),
      readFile: () => undefined,
      readInput: () => undefined,
    })
    front.close()
    expect(code).toBe(0)
    const drawn = stripVTControlCharacters(error).split('\r').slice(1)
    expect(drawn).toEqual([
      `${'░'.repeat(30)} 1 request ahead`,
      `${'█'.repeat(15)}${'░'.repeat(15)} 1 of 2 steps`,
      `${'█'.repeat(30)} 2 of 2 steps`,
      '',
    ])
    expect(stripVTControlCharacters(out)).toContain('Note     only half of it was read\n')
    expect(stripVTControlCharacters(out)).toMatch(/^Cost {5}not known yet: berth cost req_of_the_front$/m)
  })
})

/** In front of the server: hands everything on, and paints as our own engine does, which tells its steps. */
async function startPainterFront(): Promise<{ url: string; close: () => void }> {
  const shape = { width: SIDE, height: SIDE, steps: 2, seed: 7, notes: ['only half of it was read'] }
  const pass = async (request: http.IncomingMessage, response: http.ServerResponse): Promise<void> => {
    const { method = 'GET', url = '/' } = request
    if (url === '/v1/image/generation') {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'x-inference-request-id': 'req_of_the_front' })
      return void response.end(imageEvents(shape).join(''))
    }
    const body = await text(request)
    const headers = { authorization: request.headers.authorization ?? '', 'content-type': 'application/json' }
    const reply = await fetch(`${cli.server.url}${url}`, { method, headers, ...(body === '' ? {} : { body }) })
    response.writeHead(reply.status, { 'content-type': 'application/json' }).end(await reply.text())
  }
  const server = http.createServer((request, response) => void pass(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

describe('speak', () => {
  test('writes the speech, and prints its length and cost', async () => {
    const file = at('ship.mp3')
    const args = ['speak', 'The ship is in.', '-o', file, '--voice', 'neural', '--speed', '1.5']
    const { code, out, error } = await cli.berth(args)
    expect({ code, error }).toEqual({ code: 0, error: '' })
    expect(await readFile(file)).toEqual(silentMp3('The ship is in.'))
    expect(out).toContain(`File     ${file}\nModel    house/voice\n`)
    expect(out).toMatch(/^Length {3}\d+\.\d s, 15 characters$/m)
    expect(out).toMatch(/^Cost {5}<\$0\.0001$/m)
    expect(lastBody(speaker)).toMatchObject({ input: 'The ship is in.', voice: 'neural', speed: 1.5 })
  })

  test('keeps an existing file, and prints the result for --json', async () => {
    const file = at('kept.mp3')
    expect(await cli.json('speak', 'One', 'two', '-o', file, '--speaker', 'rms')).toMatchObject({
      file,
      characters: 7,
      costNanoUsd: 7,
      bytes: silentMp3('One two').length,
    })
    const again = await cli.berth(['speak', 'Three', '-o', file])
    expect(again).toMatchObject({ code: 1, error: expect.stringContaining(`${file} already exists.`) })
  })
})
