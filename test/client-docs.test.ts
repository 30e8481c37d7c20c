/** P67: the programs in docs/clients.md run against a server, with the packages that they name. */
import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { codeOf } from './harness/client-docs.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { removeFolder } from './harness/leftover.ts'
import { testServer, type TestServer } from './harness/server.ts'

const run = promisify(execFile)
let folder: string
let server: TestServer
let models: TestModel[]

/** Packages that are installed here under another name. */
const packages = {
  '@anthropic-ai/sdk': 'anthropic-sdk-1',
  '@ai-sdk/openai-compatible': '@ai-sdk/openai-compatible',
  ai: 'ai',
  openai: 'openai',
}

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-clients-'))
  server = await testServer()
  models = [
    await serveModel(server, { name: 'tinyllama-1.1b-chat', behaviour: { tokenizer: 'vllm' } }),
    await serveModel(server, { name: 'all-minilm-l6-v2', model: { kind: 'embedding' } }),
    await serveModel(server, {
      name: 'moonshine-base-en',
      model: { kind: 'transcription', soundMsUsdPerMillion: '0.001' },
    }),
    await serveModel(server, {
      name: 'pictogram',
      model: { kind: 'image', pixelStepUsdPerMillion: '0.001' },
      deployment: { protocol: 'txt2img' },
    }),
    await serveModel(server, { name: 'berth-voice', model: { kind: 'speech', characterUsdPerMillion: '0.01' } }),
  ]
  for (const [name, installed] of Object.entries(packages)) {
    await mkdir(path.dirname(path.join(folder, 'node_modules', name)), { recursive: true })
    await symlink(path.resolve('node_modules', installed), path.join(folder, 'node_modules', name))
  }
})
afterAll(async () => {
  await server.close()
  await Promise.all(models.map(({ upstream }) => upstream.close()))
  await removeFolder(folder)
})

const outputs: Readonly<Record<string, RegExp>> = {
  'OpenAI Responses': /^completed, 5 tokens out; completed, continues resp_[0-9a-f]{32}$/,
  Anthropic: /^\d+ tokens in, 5 out, end_turn$/,
  'OpenAI batches': /^completed: question-0, question-1$/,
  'Vercel AI SDK': /^5 words, 5 tokens, stop$/,
  'OpenAI speech': /^audio\/mpeg$/,
  'OpenAI images': /^image_generation\.completed 512x512$/,
  'OpenAI transcription': /^3\.6 s, 2 segments: The ship left the harbor/,
  Reranking: /^document [01], \d+ tokens$/,
}

test.each(Object.entries(outputs))('P67: the program for %s', async (section, output) => {
  const program = path.join(folder, 'program.mjs')
  // Some programs write a recording, and one reads it.
  await copyFile(path.resolve('test/fixtures/sound/ship.mp3'), path.join(folder, 'ship.mp3'))
  await writeFile(program, await codeOf(section, 'js'))
  const { key } = await server.account({ usd: '1' })
  const env = { ...process.env, BERTH_URL: server.url, BERTH_KEY: key }
  const { stdout } = await run(process.execPath, [program], { env, cwd: folder })
  expect(stdout.trim()).toMatch(output)
})

test('P67: the command for curl', async () => {
  const { key } = await server.account({ usd: '1' })
  const env = { ...process.env, BERTH_URL: server.url, BERTH_KEY: key }
  const { stdout } = await run('bash', ['-c', await codeOf('curl', 'sh')], { env, cwd: folder })
  expect(JSON.parse(stdout)).toMatchObject({ type: 'message', stop_reason: 'end_turn', usage: { output_tokens: 5 } })
})
