/** An agent that speaks the Responses API with a real (tiny) model in the built-in engine, through the client of OpenAI. */
import { mkdtemp, readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import OpenAI from 'openai'
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
let client: OpenAI
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-responses-'))
  const dataDir = path.join(folder, 'data')
  server = await startServerProcess({
    BERTH_DATA_DIR: dataDir,
    BERTH_LOCAL_ENGINES: 'true',
    BERTH_DEFAULT_MODELS: 'none',
  })
  const file = path.join(folder, 'tiny.gguf')
  await writeTinyGguf(file)
  const operator = caller(server.url, (await readFile(path.join(dataDir, 'operator.key'), 'utf8')).trim())
  const key = (await readFile(path.join(dataDir, 'demo.key'), 'utf8')).trim()
  call = caller(server.url, key)
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: key, maxRetries: 0 })
  const files = [{ source: `file:${file}`, file: 'tiny.gguf', bytes: null, sha256: null }]
  const added = await operator('POST', '/v2/operator/models', {
    name: model,
    kind: 'chat',
    engine: 'llama',
    files,
    inputUsdPerMillion: '0.05',
  })
  if (added.status !== 200) throw new Error(`no model: ${JSON.stringify(added.body)}`)
  const isReady = async (): Promise<boolean> =>
    (await call('POST', '/v1/responses', { model, input: 'Hi' })).status === 200
  await waitFor('the model answers', isReady, STARTUP_MS)
}, STARTUP_MS)
afterAll(async () => {
  await server.stop()
  await removeFolder(folder)
}, STARTUP_MS)

const instructions = 'You are a pilot.'

test(
  'P5, P8: turns that continue each other reuse the prompt before, and cost what they count',
  { timeout: STARTUP_MS },
  async () => {
    let previous: string | undefined
    for (let turn = 0; turn < TURNS; turn += 1) {
      const asked = {
        model,
        instructions,
        input: `Question ${turn}`,
        ...(previous === undefined ? {} : { previous_response_id: previous }),
      }
      const counted = await call('POST', '/v1/responses/input_tokens', asked)
      const stream = client.responses.stream({ ...asked, max_output_tokens: 5 })
      const events: string[] = []
      for await (const { type } of stream) events.push(type)
      const response = await stream.finalResponse()
      expect(events.slice(0, 2)).toEqual(['response.created', 'response.in_progress'])
      expect(events.at(-1)).toBe(`response.${response.status}`)
      const { input_tokens: tokens, input_tokens_details: details } = response.usage ?? {}
      expect([counted.headers.get('x-berth-token-count'), counted.body.input_tokens]).toEqual(['exact', tokens])
      expect(turn === 0 || (details?.cached_tokens ?? 0) > 0).toBe(true)
      expect((await client.responses.retrieve(response.id)).output).toEqual(
        (await call('GET', `/v1/responses/${response.id}`)).body.output,
      )
      previous = response.id
    }
  },
)

test('P13: output with a schema has its form', { timeout: STARTUP_MS }, async () => {
  const schema = {
    type: 'object',
    properties: { isShip: { type: 'boolean' } },
    required: ['isShip'],
    additionalProperties: false,
  }
  const format = { type: 'json_schema', name: 'ship', schema, strict: true } as const
  const response = await client.responses.create({ model, input: 'A ship?', max_output_tokens: 60, text: { format } })
  expect(response.status).toBe('completed')
  expect(JSON.parse(response.output_text)).toEqual({ isShip: expect.any(Boolean) as boolean })
})
