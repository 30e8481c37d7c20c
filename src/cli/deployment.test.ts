/** `berth deploy` and `berth deployments` against a real server without machines. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../test/harness/cli.ts'
import { HOUSE_ACCOUNT } from '../app/house.ts'

let cli: CliTest
beforeAll(async () => {
  cli = await startCliTest()
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
  expect(used).toMatchObject({ requests: 0, gpuCostUsd: '0.000000000', utilisationPercent: null, targetOutstanding: 4 })
  expect((await cli.berth(['deployments', 'usage', String(id)])).out).toMatch(/^GPU cost {5}\$0\.00$/m)
  await json('deployments', 'rm', 'unused', '--yes')
})
