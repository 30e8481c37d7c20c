/** The code snippets of the console work unchanged for any input. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { chatProtocols } from '../../console/pages/playground/protocol.ts'
import { transcriptionSnippets } from '../../console/pages/playground/sound-snippet.ts'
import { imageSnippets, speechSnippets, type Snippets } from '../../console/pages/playground/snippet.ts'
import { silentWav } from '../../src/base/sound/wav.ts'
import { grayPng, silentMp3 } from '../sim/model-server-answer.ts'
import { serveModel, type TestModel } from '../harness/inference.ts'
import { removeFolder } from '../harness/leftover.ts'
import { testServer, type TestServer } from '../harness/server.ts'

const run = promisify(execFile)

const nasty = [
  `It's "quoted", 'single' and ''''; \\ \\n \\u0041 \\`,
  'lines\nand\r\nreturns\tand tabs',
  '$HOME ${BERTH_KEY} $(touch ran) `touch ran` %s !! #{x} {{y}} <<EOF',
  'ünïcode 👍🏽 \u2028 \u0007',
  '*/ // """ \'\'\' -- </script>',
].join('\n')

const noTokens = {
  contextTokens: null,
  maxOutputTokens: null,
  inputUsdPerMillion: undefined,
  outputUsdPerMillion: undefined,
}

let server: TestServer
let chat: TestModel
let painter: TestModel
let voice: TestModel
let listener: TestModel
let folder: string

beforeAll(async () => {
  server = await testServer()
  chat = await serveModel(server, { name: 'house/chat' })
  painter = await serveModel(server, {
    name: 'house/painter',
    model: { ...noTokens, kind: 'image', pixelStepUsdPerMillion: '0.001' },
    deployment: { protocol: 'txt2img' },
  })
  voice = await serveModel(server, {
    name: 'house/voice',
    model: { ...noTokens, kind: 'speech', characterUsdPerMillion: '0.001' },
  })
  listener = await serveModel(server, {
    name: 'house/listener',
    model: { ...noTokens, kind: 'transcription', soundMsUsdPerMillion: '0.001' },
  })
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-snippet-'))
  const modules = path.join(folder, 'node_modules')
  await mkdir(path.join(modules, '@anthropic-ai'), { recursive: true })
  for (const name of ['openai', 'tsx']) await symlink(path.resolve('node_modules', name), path.join(modules, name))
  await symlink(path.resolve('node_modules/anthropic-sdk-1'), path.join(modules, '@anthropic-ai/sdk'))
})
afterAll(async () => {
  for (const { upstream } of [chat, painter, voice, listener]) await upstream.close()
  await server.close()
  await removeFolder(folder)
})

const kinds = ['chat', 'responses', 'messages', 'picture', 'speech'] as const

/** By the names of the cases. */
function protocolsOf(body: Readonly<Record<string, unknown>>) {
  const codes = chatProtocols(server.url, body)
  const codeOf = (protocol: string): { snippets: Snippets; missing: readonly string[] } => {
    const code = codes.find((one) => one.protocol === protocol)
    if (code === undefined) throw new Error(`no code for ${protocol}`)
    return { missing: [], ...code }
  }
  return {
    chat: codeOf('OpenAI Chat Completions'),
    responses: codeOf('OpenAI Responses'),
    messages: codeOf('Anthropic Messages'),
  }
}

/** The code, its request, the request at the engine, and the result. */
function caseOf(kind: (typeof kinds)[number]) {
  switch (kind) {
    case 'chat':
    case 'responses':
    case 'messages': {
      const messages = [
        { role: 'system', content: nasty },
        { role: 'user', content: nasty },
      ]
      const sampling = { temperature: 0.5, stop: [nasty], seed: -7, top_k: 40, min_p: 0.1 }
      const body = { model: 'house/chat', messages, max_tokens: 300, ...sampling }
      const { snippets, missing } = protocolsOf(body)[kind]
      const known = Object.entries(sampling).filter(([name]) => !missing.includes(name))
      const wanted = { messages, ...Object.fromEntries(known), max_tokens: 300, stream: true }
      const given = { ...body, ...Object.fromEntries(missing.map((name) => [name, undefined])) }
      return { body: given, wanted, snippets, missing, model: chat, file: undefined, result: 'word4' }
    }
    case 'picture': {
      const wanted = { prompt: nasty, width: 128, height: 128, steps: 2, negative_prompt: nasty }
      const body = { model_name: 'house/painter', ...wanted }
      const result = grayPng(128, 128).toString('base64')
      return {
        missing: [],
        body,
        wanted,
        snippets: imageSnippets(server.url, body),
        model: painter,
        file: 'image.png',
        result,
      }
    }
    case 'speech': {
      const body = { model: 'house/voice', text: nasty, speed: 1.5 }
      const result = silentMp3(nasty).toString('base64')
      const wanted = { input: nasty, speed: 1.5 }
      return {
        missing: [],
        body,
        wanted,
        snippets: speechSnippets(server.url, body),
        model: voice,
        file: 'speech.mp3',
        result,
      }
    }
  }
}

/** Runs it with a key in a separate folder. Returns its output and the request at the engine. */
async function outcomeOf(kind: (typeof kinds)[number], command: string, args: readonly string[]) {
  const { file, model } = caseOf(kind)
  if (file !== undefined) await writeFile(path.join(folder, file), '')
  const env = { ...process.env, BERTH_KEY: server.demoKey }
  const { stdout } = await run(command, args, { cwd: folder, env })
  return {
    result: file === undefined ? stdout : (await readFile(path.join(folder, file))).toString('base64'),
    asked: JSON.parse(model.upstream.requests.at(-1)?.body.toString() ?? '') as unknown,
    strays: (await readdir(folder)).filter((name) => name === 'ran'),
  }
}

test('each protocol names the parameters that it does not have', () => {
  expect(caseOf('chat').missing).toEqual([])
  expect(caseOf('responses').missing).toEqual(['stop', 'seed', 'top_k', 'min_p'])
  expect(caseOf('messages').missing).toEqual(['seed', 'min_p'])
})

test('Anthropic Messages, which needs a limit, gets one', () => {
  const { snippets } = protocolsOf({ model: 'house/chat', messages: [{ role: 'user', content: 'Hello' }] }).messages
  expect(snippets.curl).toContain('"max_tokens": 1024')
  expect(snippets.python).not.toContain('system')
})

describe.each(kinds)('%s', (kind) => {
  test('as curl', async () => {
    const { snippets, wanted, result } = caseOf(kind)
    const outcome = await outcomeOf(kind, 'bash', ['-c', snippets.curl])
    expect(outcome).toMatchObject({ asked: wanted, result: expect.stringContaining(result), strays: [] })
  })

  test('as TypeScript', async () => {
    const { snippets, wanted, result } = caseOf(kind)
    const file = path.join(folder, `${kind}.mts`)
    await writeFile(file, snippets.typescript)
    const outcome = await outcomeOf(kind, process.execPath, ['--import', 'tsx', file])
    expect(outcome).toMatchObject({ asked: wanted, result: expect.stringContaining(result), strays: [] })
  })

  test('as Python, whose texts are those that were typed', async () => {
    const { snippets, body } = caseOf(kind)
    const texts = (await readByPython(snippets.python)) ?? readAsJson(snippets.python)
    const wanted = JSON.stringify(body).split(JSON.stringify(nasty)).length - 1
    expect(texts.filter((text) => text === nasty)).toHaveLength(wanted)
    expect(snippets.python).not.toMatch(/^(lines|and|returns|\$HOME|\*\/)/m)
  })
})

describe('a recording', () => {
  const FILE = 'it\'s a "ship".wav'
  const fields = { model: 'house/listener', language: 'en', prompt: `@${nasty}` }
  const code = (): Snippets => transcriptionSnippets(server.url, fields, FILE)

  /** Runs it beside the recording. Returns its output and the fields of the form at the engine. */
  async function transcribe(command: string, args: readonly string[]) {
    await writeFile(path.join(folder, FILE), silentWav(1))
    const env = { ...process.env, BERTH_KEY: server.demoKey }
    const { stdout } = await run(command, args, { cwd: folder, env })
    const request = listener.upstream.requests.at(-1)
    const headers = { 'content-type': String(request?.headers['content-type']) }
    const form = await new Response(Uint8Array.from(request?.body ?? []), { headers }).formData()
    const typed = (form.get('prompt') as string).replaceAll(/\r\n?|\n/g, '\r\n')
    const sent = { language: form.get('language'), prompt: typed }
    return { stdout, sent, strays: (await readdir(folder)).filter((name) => name === 'ran') }
  }

  // Forms have lines that end with both.
  const prompt = fields.prompt.replaceAll(/\r\n?|\n/g, '\r\n')
  const outcome = {
    stdout: expect.stringContaining('The ship left the harbor') as string,
    sent: { language: 'en', prompt },
    strays: [],
  }

  test('as curl', async () => {
    // The name of a file within -F has quotes of its own.
    const { curl } = transcriptionSnippets(server.url, fields, 'ship.wav')
    await writeFile(path.join(folder, 'ship.wav'), silentWav(1))
    expect(await transcribe('bash', ['-c', curl])).toEqual(outcome)
  })

  test('as TypeScript', async () => {
    const program = path.join(folder, 'transcribe.mts')
    await writeFile(program, code().typescript)
    expect(await transcribe(process.execPath, ['--import', 'tsx', program])).toEqual(outcome)
  })

  test('as Python, whose texts are those that were typed', async () => {
    const texts = (await readByPython(code().python)) ?? readAsJson(code().python)
    expect(texts).toEqual(expect.arrayContaining([FILE, fields.prompt]))
  })
})

const LITERALS = `
import ast, json, sys
tree = ast.parse(sys.stdin.buffer.read().decode("utf-8"))
print(json.dumps([n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]))
`

/** undefined: Python is not installed. */
async function readByPython(code: string): Promise<string[] | undefined> {
  const reading = run('python3', ['-c', LITERALS], { cwd: folder })
  reading.child.stdin?.on('error', () => {})
  reading.child.stdin?.end(code)
  try {
    return JSON.parse((await reading).stdout) as string[]
  } catch (error) {
    if ((error as { code?: unknown }).code === 'ENOENT') return undefined
    throw error
  }
}

/** Without Python: parses quoted strings as JSON, which Python reads in the same way. */
function readAsJson(code: string): string[] {
  return [...code.matchAll(/"(?:[^"\\\n]|\\.)*"/g)].map(([literal]) => JSON.parse(literal) as string)
}
