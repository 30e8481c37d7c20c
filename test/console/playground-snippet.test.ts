/** The code that the console hands out does what it says, whatever was typed: it is run as it stands. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { chatSnippets, pictureSnippets, speechSnippets } from '../../console/pages/playground-snippet.ts'
import { grayPng, silentMp3 } from '../../src/sim/model-server-answer.ts'
import { serveModel, type TestModel } from '../harness/inference.ts'
import { removeFolder } from '../harness/leftover.ts'
import { testServer, type TestServer } from '../harness/server.ts'

const run = promisify(execFile)

const nasty = [
  `It's "quoted", 'single' and ''''; \\ \\n \\u0041 \\`,
  'lines\nand\r\nreturns\tand tabs',
  '$HOME ${BERTH_KEY} $(touch ran) `touch ran` %s !! #{x} {{y}} <<EOF',
  'ünïcode 👍🏽 \u2028 \u0007 \ud83d',
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
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-snippet-'))
  await symlink(path.resolve('node_modules'), path.join(folder, 'node_modules'))
})
afterAll(async () => {
  for (const { upstream } of [chat, painter, voice]) await upstream.close()
  await server.close()
  await removeFolder(folder)
})

const cases = {
  chat: () => {
    const messages = [
      { role: 'system', content: nasty },
      { role: 'user', content: nasty },
    ]
    const body = { model: 'house/chat', messages, temperature: 0.5, stop: [nasty], seed: -7, top_k: 40, min_p: 0.1 }
    return { snippets: chatSnippets(server.url, body), body, model: chat, wanted: body as object }
  },
  picture: () => {
    const body = {
      model_name: 'house/painter',
      prompt: nasty,
      width: 128,
      height: 128,
      steps: 2,
      negative_prompt: nasty,
    }
    const { model_name: _, ...wanted } = body
    return { snippets: pictureSnippets(server.url, body), body, model: painter, wanted }
  },
  speech: () => {
    const body = { model: 'house/voice', text: nasty, speed: 1.5 }
    return { snippets: speechSnippets(server.url, body), body, model: voice, wanted: { input: nasty, speed: 1.5 } }
  },
}

const files = {
  picture: ['picture.png', () => grayPng(128, 128)],
  speech: ['speech.mp3', () => silentMp3(nasty)],
} as const

/** What has been said or written, and what the engine was asked. */
async function check(kind: keyof typeof cases, output: string): Promise<void> {
  const { model, wanted } = cases[kind]()
  if (kind === 'chat') expect(output).toContain('word4')
  else {
    const [file, bytes] = files[kind]
    expect((await readFile(path.join(folder, file))).equals(bytes())).toBe(true)
    await writeFile(path.join(folder, file), '')
  }
  const sent = model.upstream.requests.at(-1)?.body.toString() ?? ''
  expect(JSON.parse(sent)).toMatchObject(wanted)
}

describe.each(['chat', 'picture', 'speech'] as const)('%s', (kind) => {
  test('as curl', async () => {
    const env = { ...process.env, BERTH_KEY: server.demoKey }
    const { stdout } = await run('bash', ['-c', cases[kind]().snippets.curl], { cwd: folder, env })
    await check(kind, stdout)
  })

  test('as TypeScript', async () => {
    const file = path.join(folder, `${kind}.mts`)
    await writeFile(file, cases[kind]().snippets.typescript)
    const env = { ...process.env, BERTH_KEY: server.demoKey }
    const { stdout } = await run(process.execPath, ['--import', 'tsx', file], { cwd: folder, env })
    await check(kind, stdout)
  })

  test('as Python, where every text is the literal that JSON has for it', async () => {
    const { snippets, body } = cases[kind]()
    const said = JSON.stringify(nasty)
    const count = JSON.stringify(body).split(said).length
    expect(snippets.python.split(said)).toHaveLength(count)
    // No line of what was typed is a line of the program.
    expect(snippets.python).not.toContain('\r')
    expect(snippets.python.split('\n').filter((line) => /^(and|lines|\$HOME|\*\/)/.test(line))).toEqual([])
    const read = await readByPython(snippets.python)
    // The texts as a Python has read them, where there is one.
    if (read !== undefined) expect(read.filter((text) => text === nasty)).toHaveLength(count - 1)
  })
})

const LITERALS = `
import ast, json, sys
tree = ast.parse(sys.stdin.buffer.read().decode("utf-8"))
print(json.dumps([n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]))
`

/** undefined: there is no Python here. */
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
