/** Deployments by the name of a model, through the HTTP API: what the catalog shows is what is ordered. */
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { builtInCatalog } from '../src/domain/built-in-catalog.ts'
import { passForReal } from './harness/simulated-machine.ts'
import { startReceiver } from './harness/receiver.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

let server: TestServer
let call: Call
beforeAll(async () => {
  server = await testServer({})
  ;({ call } = await server.account({ usd: '1000' }))
})
afterAll(() => server.close())

interface Entry {
  readonly id: string
  readonly fit: { readonly costPerHourUsd: string; readonly gpuModel: string; readonly gpuCount: number } | null
  readonly whyNot: string | null
}

async function entryOf(id: string): Promise<Entry | undefined> {
  const { models } = (await call('GET', '/v2/catalog')).body as { models: Entry[] }
  return models.find((one) => one.id === id)
}

describe('the catalog', () => {
  test('has no fit while only simulated machines are free, and deploys nothing on them', async () => {
    const { body } = await call('GET', '/v2/catalog?kind=chat')
    expect(body).toMatchObject({ source: 'built-in', problem: null, date: builtInCatalog.date })
    expect(body.models.every(({ fit }: Entry) => fit === null)).toBe(true)
    const refused = await call('POST', '/v2/deployments', { catalogModel: 'gpt-oss-20b' })
    expect(refused.body).toMatchObject({ reason: 'only_simulated_machines' })
    const { gpus, simulated } = (await call('GET', '/v2/catalog/gpus?catalogModel=qwen3-8b')).body
    expect([gpus, simulated > 0]).toEqual([[], true])
  })

  test('deploys a model by its name alone, on the machine and at the price that it shows (gpus promise 22)', async () => {
    await passForReal(server.app)
    const entry = await entryOf('qwen3-8b')
    const quote = (await call('POST', '/v2/deployments/quote', { catalogModel: 'qwen3-8b' })).body
    expect(quote).toMatchObject({
      costPerHourUsd: entry?.fit?.costPerHourUsd,
      gpuModel: entry?.fit?.gpuModel,
      gpuCount: entry?.fit?.gpuCount,
    })
    expect(quote.kvTokens).toBeGreaterThan(8_192)
    const { status, body } = await call('POST', '/v2/deployments', { catalogModel: 'qwen3-8b' })
    expect([status, body.kind]).toEqual([200, 'chat'])
    expect(body.model).toMatch(/\/qwen3-8b$/)
    expect(body.spec.recipe).toMatchObject({
      name: 'vllm',
      hubModel: 'Qwen/Qwen3-8B',
      image: { name: 'vllm/vllm-openai', tag: 'v0.33.0' },
      parsers: { tools: 'hermes', reasoning: 'qwen3' },
      cuda: '13.0',
    })
    const listed = await waitFor('the gateway to know the model', async () => {
      const { data } = (await call('GET', '/v1/models')).body as {
        data: Array<{ id: string; supports_tools: boolean }>
      }
      return data.find(({ id }) => id === body.model)
    })
    expect(listed).toMatchObject({ supports_tools: true })
  })

  test('offers each GPU model with the price of a replica, those that fit first, and no simulated ones', async () => {
    const gpusOf = async (query: string) =>
      (await call('GET', `/v2/catalog/gpus${query}`)).body as {
        simulated: number
        gpus: Array<{ gpuModel: string; gpuCount: number; costPerHourUsd: string; fits: boolean; whyNotReason: string }>
      }
    const small = await gpusOf('?catalogModel=qwen3-8b')
    expect(small.gpus.length).toBeGreaterThan(3)
    expect(new Set(small.gpus.map(({ gpuModel }) => gpuModel)).size).toBe(small.gpus.length)
    expect(small.gpus[0]).toMatchObject({
      fits: true,
      whyNotReason: null,
      costPerHourUsd: (await entryOf('qwen3-8b'))?.fit?.costPerHourUsd,
    })
    const rank = small.gpus.map(({ fits }) => Number(!fits))
    expect(rank).toEqual(rank.toSorted((a, b) => a - b))
    // Each price is that of the quote for the same GPUs.
    for (const { gpuModel, gpuCount, costPerHourUsd } of small.gpus.filter(({ fits }) => fits)) {
      const order = { catalogModel: 'qwen3-8b', gpus: { model: gpuModel, count: gpuCount } }
      const { body } = await call('POST', '/v2/deployments/quote', order)
      expect([gpuModel, body.costPerHourUsd]).toEqual([gpuModel, costPerHourUsd])
    }
    const large = await gpusOf('?catalogModel=gpt-oss-120b')
    const tooSmall = large.gpus.filter(({ fits }) => !fits)
    for (const { whyNotReason } of tooSmall) expect(['model_does_not_fit', 'no_capacity']).toContain(whyNotReason)
    expect((await gpusOf('')).gpus.every(({ fits, gpuCount }) => fits && gpuCount === 1)).toBe(true)
    expect((await call('GET', '/v2/catalog/gpus?catalogModel=nothing')).body.reason).toBe('catalog_model_not_found')
  })

  test('keeps the limits of the order: region, price and GPUs', async () => {
    const gpus = { maxUsdPerGpuHour: '0.01' }
    expect((await call('POST', '/v2/deployments', { catalogModel: 'gpt-oss-20b', gpus })).status).toBe(400)
    const { body } = await call('POST', '/v2/deployments/quote', { catalogModel: 'gpt-oss-20b', gpus: { count: 4 } })
    expect(body.gpuCount).toBe(4)
  })

  test('asks for a token before it rents anything for a gated model (gpus promise 27)', async () => {
    const gated = await call('POST', '/v2/deployments', { catalogModel: 'llama-3.1-8b' })
    expect([gated.status, gated.body.reason]).toEqual([400, 'model_gated'])
    const { body } = await call('POST', '/v2/deployments', { catalogModel: 'llama-3.1-8b', env: { HF_TOKEN: 'hf_x' } })
    expect(body.spec.recipe.env).toEqual({ HF_TOKEN: 'hf_x' })
  })

  test('says which models are similar to one that it does not have', async () => {
    const { status, body } = await call('POST', '/v2/deployments', { catalogModel: 'qwen3' })
    expect([status, body.reason]).toEqual([400, 'catalog_model_not_found'])
    expect(body.message).toContain('qwen3-8b')
  })

  test('is needed or a recipe is', async () => {
    expect((await call('POST', '/v2/deployments', { name: 'bare' })).body.reason).toBe('recipe_missing')
  })
})

test("an operator's catalog replaces the built-in one, and customers do not see where it is", async () => {
  const text = JSON.stringify({ ...builtInCatalog, models: builtInCatalog.models.slice(0, 2) })
  const file = path.join(server.dataDir, 'own-catalog.json')
  await writeFile(file, text)
  const site = await startReceiver()
  site.answer = (_, response) => void response.end(text)
  const locations = [file, `${site.url}/catalog.json`]
  const others = await Promise.all(locations.map((location) => testServer({ env: { BERTH_CATALOG: location } })))
  try {
    for (const [index, other] of others.entries()) {
      const customer = await other.account({ usd: '1' })
      const { body } = await customer.call('GET', '/v2/catalog')
      expect([body.models.length, body.source, body.problem]).toEqual([2, 'operator', null])
      expect((await other.operator('GET', '/v2/catalog')).body.source).toBe(locations[index])
    }
  } finally {
    await Promise.all([site, ...others].map((one) => one.close()))
  }
})
