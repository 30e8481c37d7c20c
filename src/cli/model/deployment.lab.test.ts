/** `berth deploy` and `berth deployments` against a real server without machines. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { passForReal } from '../../../test/harness/simulated-machine.ts'
import { HOUSE_ACCOUNT } from '../../app/money/house.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
beforeAll(async () => {
  cli = await startCliTest()
  await passForReal(cli.server.app)
})
afterAll(() => cli.close())

const json = async (...args: string[]): Promise<Record<string, unknown>> => {
  const { code, out, error } = await cli.berth([...args, '--json'])
  expect({ code, error }).toEqual({ code: 0, error: '' })
  return JSON.parse(out) as Record<string, unknown>
}
const custom = ['--recipe', 'custom', '--image', 'example.com/engine:2', '--min', '0', '--max', '2']

test('uses the key of the customer, and with --for-everyone that of the operator, in each command', async () => {
  const own = await json('deploy', 'assistant', ...custom)
  const house = await json('deploy', 'house/open', ...custom, '--budget', '2', '--for-everyone')
  expect(own['model']).toBe('demo/assistant')
  expect([own['visibility'], house['model'], house['visibility']]).toEqual(['private', 'house/open', 'everyone'])
  const { db } = cli.server.app.database
  const payers = await db.selectFrom('managed_deployment').select(['id', 'account_id']).execute()
  expect(payers.find(({ id }) => id === house['id'])?.account_id).toBe(HOUSE_ACCOUNT)
  expect(payers.find(({ id }) => id === own['id'])?.account_id).not.toBe(HOUSE_ACCOUNT)

  const ids = (listed: Record<string, unknown>): unknown[] =>
    (listed['deployments'] as Array<{ id: string }>).map(({ id }) => id)
  expect(ids(await json('deployments', 'ls'))).toEqual([own['id']])
  expect(ids(await json('deployments', 'ls', '--for-everyone'))).toEqual([house['id']])

  expect(await json('deployments', 'show', 'assistant')).toMatchObject({ id: own['id'], status: 'idle', replicas: [] })
  const hidden = await cli.berth(['deployments', 'show', 'house/open'])
  expect(hidden).toMatchObject({ code: 1, error: expect.stringContaining('berth deployments ls') })
  expect(await json('deployments', 'show', 'house/open', '--for-everyone')).toMatchObject({ id: house['id'] })
  expect(await json('deployments', 'scale', 'assistant', '--max', '8')).toMatchObject({
    settings: { replicas: { min: 0, max: 8 } },
  })
  const scaled = await json('deployments', 'scale', 'house/open', '--max', '3', '--budget', '4', '--for-everyone')
  expect(scaled).toMatchObject({ settings: { replicas: { max: 3 }, hourlyBudgetUsd: '4' } })
  expect(await json('deployments', 'rollout', 'assistant', '--image', 'example.com/engine:3')).toMatchObject({
    version: 2,
    spec: { recipe: { image: { name: 'example.com/engine', tag: '3' } } },
  })
  for (const args of [['assistant'], ['house/open', '--for-everyone']]) {
    await json('deployments', 'rm', ...args, '--yes')
  }
})

test('weights travel from the file to the API and back, and what is wrong with them is named by its field', async () => {
  const sha256 = 'ab'.repeat(32)
  const sources = {
    server: { kind: 'server', model: 'house/seven', file: 'model.gguf' },
    s3: { kind: 's3', bucket: 'models', object: 'seven/model.gguf' },
    https: { kind: 'https', url: 'https://hub.example.com/model.gguf' },
  }
  const specWith = (files: readonly object[]): string => {
    const recipe = { name: 'llama.cpp', weights: { mountPath: '/models', files } }
    const file = path.join(cli.folder, 'spec.json')
    writeFileSync(file, JSON.stringify({ recipe, gpus: {} }))
    return file
  }
  const file = (source: object, more: object = {}): object => ({
    path: 'model.gguf',
    bytes: 1_000,
    sha256,
    source,
    ...more,
  })
  for (const [name, source] of Object.entries(sources)) {
    const model = `house/${name}`
    const everyone = ['--for-everyone', '--budget', '2', '--min', '0']
    const deployment = await json('deploy', model, '--spec', specWith([file(source)]), ...everyone)
    expect(deployment).toMatchObject({ spec: { recipe: { weights: { files: [file(source)] } } } })
    // A new version keeps the weights that it does not change.
    const next = await json('deployments', 'rollout', model, '--context', '4096', '--for-everyone')
    expect(next).toMatchObject({ version: 2, spec: { recipe: { weights: { files: [file(source)] } } } })
    await json('deployments', 'rm', model, '--yes', '--for-everyone')
  }
  const refusal = async (files: readonly object[]): Promise<string> => {
    const { code, error } = await cli.berth(['deploy', 'wrong', '--spec', specWith(files)])
    expect(code).toBe(1)
    return error
  }
  expect(await refusal([file(sources.https, { sha256: 'AB' })])).toContain('recipe.weights.files.0.sha256')
  expect(await refusal([file(sources.https, { bytes: -1 })])).toContain('recipe.weights.files.0.bytes')
  expect(await refusal([file({ kind: 'https', url: 'http://hub.example.com/a' })])).toContain(
    'recipe.weights.files.0.source.url',
  )
  // Those of the server and of the object store are the operator's.
  expect(await refusal([file(sources.s3)])).toContain('weights')
})

test('shows the cost of a deployment before it exists, and its usage after', async () => {
  const { out } = await cli.berth(['deploy', 'planned', ...custom, '--dry-run'])
  expect(out).toMatch(/^One replica {2}\$[\d.]+\/hr$/m)
  expect(out).toMatch(/^At most {6}\$[\d.]+\/hr for 2 replicas$/m)
  expect(await json('deploy', 'planned', ...custom, '--dry-run')).toMatchObject({
    costPerHourUsd: expect.stringMatching(/^\d+\.\d{9}$/) as string,
    node: expect.any(String) as string,
  })
  const refused = await cli.berth(['deploy', 'planned', ...custom, '--gpu', 'none-such', '--dry-run'])
  expect(refused).toMatchObject({ code: 1, error: expect.stringContaining('none-such') as string })
  expect((await json('deployments', 'ls'))['deployments']).toEqual([])

  const { id } = await json('deploy', 'unused', ...custom)
  const used = await json('deployments', 'usage', 'unused', '--since', '7d')
  expect(used).toMatchObject({
    requests: 0,
    gpuCostUsd: '0.000000000',
    utilizationPercent: null,
    targetOutstanding: null,
  })
  expect((await cli.berth(['deployments', 'usage', String(id)])).out).toMatch(/^GPU cost {5}\$0\.00$/m)
  await json('deployments', 'rm', 'unused', '--yes')
})
