/** LoRA adapters of a managed deployment: models of their own, with the price and visibility of the base by default. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { succeed } from './harness/journey.ts'
import { passForReal } from './harness/simulated-machine.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer({})
  await passForReal(server.app)
})
afterAll(() => server.close())

const file = (path: string): object => ({
  path,
  bytes: 1_000,
  sha256: 'ab'.repeat(32),
  source: { kind: 'https', url: `https://hub.example.com/${path}` },
})
const weights = { mountPath: '/models', files: [file('model.safetensors'), file('poet/adapter.safetensors')] }
const recipe = (name: string, adapters: readonly object[]): object => ({ name, weights, adapters })
const gpus = { model: 'H100', count: 1 }

test('each is a model; its price and visibility are those of the base until it has its own', async () => {
  const customer = await server.account({ usd: '10' })
  const other = await server.account({ usd: '10' })
  const made = await succeed(server.operator, 'POST', '/v2/deployments', {
    model: 'house/base',
    forEveryone: true,
    hourlyBudgetUsd: '1.00',
    recipe: recipe('vllm', [
      { name: 'house/poet', path: 'poet' },
      { name: 'house/secret', path: 'poet', sharedWith: [customer.id] },
    ]),
    gpus,
  })
  expect(made.adapters).toEqual(['house/poet', 'house/secret'])
  await succeed(server.operator, 'PATCH', '/v2/operator/models?name=house/base', { outputUsdPerMillion: '100' })
  const priceOf = async (by: typeof other, model: string): Promise<unknown> =>
    (await by.call('GET', `/v1/models/${model}`)).body.output_price
  await waitFor('the adapter to have the price of its base', async () => (await priceOf(other, 'house/poet')) === 100)
  await succeed(server.operator, 'PATCH', '/v2/operator/models?name=house/poet', { outputUsdPerMillion: '300' })
  await succeed(server.operator, 'PATCH', '/v2/operator/models?name=house/base', { outputUsdPerMillion: '200' })
  await waitFor('its own price', async () => (await priceOf(other, 'house/poet')) === 300)
  await waitFor('the new price of the base', async () => (await priceOf(customer, 'house/secret')) === 200)
  expect(await other.call('GET', '/v1/models/house/secret')).toMatchObject({ status: 404 })
  const kept = await server.operator('DELETE', '/v2/operator/models?name=house/poet')
  expect(kept.body).toMatchObject({ reason: 'model_deployed' })
})

test('an engine without adapters refuses them; a private one is named after its account, and goes with it', async () => {
  const owner = await server.account({ usd: '10' })
  const order = (name: string): object => ({
    name: 'mine',
    recipe: recipe(name, [{ name: 'poet', path: 'poet' }]),
    gpus,
  })
  const refused = await owner.call('POST', '/v2/deployments', order('diffusion'))
  expect(refused).toMatchObject({ status: 400, body: { reason: 'recipe_mismatch' } })
  const custom = await owner.call('POST', '/v2/deployments', { ...order('berth-engine'), kind: 'chat' })
  expect(custom).toMatchObject({ status: 400, body: { reason: 'recipe_option' } })
  const made = await succeed(owner.call, 'POST', '/v2/deployments', order('vllm'))
  expect(made.adapters).toEqual([`${owner.id}/poet`])
  await succeed(owner.call, 'DELETE', `/v2/deployments/${made.id}`)
  await waitFor('it to be gone', async () => (await owner.call('GET', `/v2/deployments/${made.id}`)).status === 404)
  const { db } = server.app.database
  expect(await db.selectFrom('model').select('name').where('account_id', '=', owner.id).execute()).toEqual([])
})
