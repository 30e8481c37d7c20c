/** The Python clients of OpenAI and Anthropic, unmodified, over real HTTP. */
import { execFile } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { batchCost, batchModelPrices, chatLine, type ResultLine } from './harness/batch.ts'
import { codeOf } from './harness/client-docs.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { succeed } from './harness/journey.ts'
import { removeFolder } from './harness/leftover.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { pythonClients, whyNoPython } from './lab/python-packages.ts'
import { needs } from './needs.ts'

needs('python')

const why = whyNoPython()
/** The first run installs the packages. */
const START_MS = 10 * 60_000
const MAX_OUTPUT_BYTES = 64 * 1_048_576
const LINES = 1_000

describe.skipIf(why !== undefined)(`clients in Python${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let server: TestServer
  let models: TestModel[]
  let folder: string
  let PYTHONPATH: string
  beforeAll(async () => {
    PYTHONPATH = await pythonClients()
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-python-'))
    server = await testServer()
    const chat = { model: batchModelPrices, behaviour: { tokenizer: 'vllm' as const } }
    models = [
      await serveModel(server, { name: 'chatter', ...chat }),
      await serveModel(server, { name: 'tinyllama-1.1b-chat', ...chat }),
    ]
  }, START_MS)
  afterAll(async () => {
    await server.close()
    await Promise.all(models.map(({ upstream }) => upstream.close()))
    await removeFolder(folder)
  })

  async function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
    const options = { cwd: folder, maxBuffer: MAX_OUTPUT_BYTES, env: { PATH: process.env['PATH'], PYTHONPATH, ...env } }
    return (await promisify(execFile)('python3', [program, ...args], options)).stdout
  }

  test(
    'P22: 1,000 lines; each id is in one file; the charge is their sum at the batch price',
    { timeout: START_MS },
    async () => {
      const customer = await server.account({ usd: '1' })
      const program = path.resolve('test/clients/batch.py')
      const { batch, output, errors, listed } = JSON.parse(
        await run(program, [`${server.url}/v1`, customer.key, 'chatter']),
      ) as Outcome
      expect(batch).toMatchObject({
        status: 'completed',
        request_counts: { total: LINES, completed: 900, failed: 100 },
        metadata: { a: 'b' },
      })
      expect(listed).toEqual([batch.id])
      const ids = [...output, ...errors].map((line) => line.custom_id)
      expect(ids.toSorted()).toEqual(Array.from({ length: LINES }, (_, id) => chatLine(id).custom_id).toSorted())
      expect(errors.every(({ response }) => response?.status_code === 400)).toBe(true)
      const { cost_usd: cost } = await succeed(customer.call, 'GET', `/v1/batches/${batch.id}`)
      expect(Math.round(Number(cost) * 1e9)).toBe(batchCost(output))
    },
  )

  test.each([
    ['OpenAI in Python', /^completed, 5 tokens out; 5 tokens in a chat$/],
    ['Anthropic in Python', /^\d+ tokens in, 5 out, end_turn$/],
  ])('P67: the program for %s in docs/clients.md', async (section, output) => {
    const program = path.join(folder, 'program.py')
    await writeFile(program, await codeOf(section, 'python'))
    const { key } = await server.account({ usd: '1' })
    expect((await run(program, [], { BERTH_URL: server.url, BERTH_KEY: key })).trim()).toMatch(output)
  })
})

interface Outcome {
  readonly batch: { readonly id: string }
  readonly output: readonly ResultLine[]
  readonly errors: readonly ResultLine[]
  readonly listed: readonly string[]
}
