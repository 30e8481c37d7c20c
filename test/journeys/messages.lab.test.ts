/** An agent that speaks the Messages API with a real (tiny) model in the built-in engine. */
import { mkdtemp, readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { removeFolder } from '../harness/leftover.ts'
import { caller, type Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { startServerProcess, type ServerProcess } from '../lab/process.ts'
import { needs } from '../needs.ts'
import { writeTinyGguf } from '../sim/tiny-gguf.ts'

needs('build')

const STARTUP_MS = 120_000
const TURNS = 10
const model = 'test/tiny'

let folder: string
let server: ServerProcess
let call: Call
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-messages-'))
  const dataDir = path.join(folder, 'data')
  server = await startServerProcess({
    BERTH_DATA_DIR: dataDir,
    BERTH_LOCAL_ENGINES: 'true',
    BERTH_DEFAULT_MODELS: 'none',
  })
  const file = path.join(folder, 'tiny.gguf')
  await writeTinyGguf(file)
  const operator = caller(server.url, (await readFile(path.join(dataDir, 'operator.key'), 'utf8')).trim())
  call = caller(server.url, (await readFile(path.join(dataDir, 'demo.key'), 'utf8')).trim())
  const files = [{ source: `file:${file}`, file: 'tiny.gguf', bytes: null, sha256: null }]
  const added = await operator('POST', '/v2/operator/models', {
    name: model,
    kind: 'chat',
    engine: 'llama',
    files,
    inputUsdPerMillion: '0.05',
  })
  if (added.status !== 200) throw new Error(`no model: ${JSON.stringify(added.body)}`)
  await waitFor(
    'the model answers',
    async () => (await ask([{ role: 'user', content: 'Hi' }])).status === 200,
    STARTUP_MS,
  )
}, STARTUP_MS)
afterAll(async () => {
  await server.stop()
  await removeFolder(folder)
}, STARTUP_MS)

function ask(messages: readonly object[], path = '/v1/messages', more: object = {}) {
  const limit = path === '/v1/messages' ? { max_tokens: 5 } : {}
  return call('POST', path, { model, messages, system: 'You are a pilot.', ...limit, ...more })
}

const look = {
  name: 'look',
  description: 'Looks at a place',
  input_schema: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] },
}

test(
  'P16, P17, P20: turns with a system note reuse the prompt before, and are counted exactly',
  { timeout: STARTUP_MS },
  async () => {
    const messages: object[] = []
    for (let turn = 0; turn < TURNS; turn += 1) {
      messages.push({ role: 'user', content: `Question ${turn}` }, { role: 'system', content: `Note ${turn}` })
      const counted = await ask(messages, '/v1/messages/count_tokens')
      const { status, body, headers } = await ask(messages)
      expect(status).toBe(200)
      const { input_tokens: fresh, cache_read_input_tokens: cached } = body.usage
      expect([counted.headers.get('x-berth-token-count'), counted.body.input_tokens]).toEqual(['exact', fresh + cached])
      expect(turn === 0 || cached > 0).toBe(true)
      const requestIds = [headers.get('x-inference-request-id')]
      const { body: costs } = await call('POST', '/v2/usage/request-cost', { requestIds })
      // $0.05 per million tokens, also for cached ones; answers are free.
      expect(costs.requests[0].costNanoUsd).toBe((fresh + cached) * 50)
      messages.push({ role: 'assistant', content: body.content.length === 0 ? 'Aye.' : body.content })
    }
  },
)

test(
  'P20: tools, calls, results and thinking are counted as the engine counts them',
  { timeout: STARTUP_MS },
  async () => {
    const called = [
      { role: 'user', content: 'Look.' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'A place.', signature: 'any' },
          { type: 'text', text: 'I look.' },
          { type: 'tool_use', id: 'call_1', name: 'look', input: { place: 'Kai' } },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: 'Ships.', is_error: true }] },
    ]
    const plain = await ask(called.slice(0, 1), '/v1/messages/count_tokens')
    for (const messages of [called.slice(0, 1), called]) {
      const counted = await ask(messages, '/v1/messages/count_tokens', { tools: [look] })
      const { status, body } = await ask(messages, '/v1/messages', { tools: [look] })
      expect([status, counted.headers.get('x-berth-token-count')]).toEqual([200, 'exact'])
      const { input_tokens: fresh, cache_read_input_tokens: cached } = body.usage
      expect(counted.body.input_tokens).toBe(fresh + cached)
      // The tool is part of the prompt.
      expect(counted.body.input_tokens).toBeGreaterThan(plain.body.input_tokens)
    }
  },
)
