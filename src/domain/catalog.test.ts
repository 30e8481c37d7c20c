import { describe, expect, test } from 'vitest'
import engineFlags from '../../test/fixtures/engine-flags.json' with { type: 'json' }
import { usd } from '../base/money.ts'
import { catalogFile, type CatalogModel } from '../contract/catalog.ts'
import type { RecipeOrder } from '../contract/recipe.ts'
import { builtInCatalog } from './built-in-catalog.ts'
import { cheapestFit, findCatalogModel, withCatalogDefaults, type FreeGpus } from './catalog.ts'
import { kvTokensOf, whyDriverTooOld, whyTooLarge } from './model-memory.ts'
import { replicaOf } from './recipe.ts'

const h200 = gpus('NVIDIA-H200', 143_771, '3.50')
const l4 = gpus('NVIDIA-L4', 23_034, '0.60')

function gpus(gpuModel: string, gpuRamMib: number, price: string, more: Partial<FreeGpus> = {}): FreeGpus {
  return {
    machineId: `${gpuModel}-1`,
    gpuCount: 1,
    gpuModel,
    gpuRamMib,
    ramGb: 64,
    region: 'here',
    cuda: '13.0',
    vendor: 'nvidia',
    costPerHour: usd(price),
    simulation: null,
    ...more,
  }
}

function modelOf(id: string): CatalogModel {
  const model = findCatalogModel(builtInCatalog, id)
  if (!model.ok) throw new Error(model.message)
  return model.value
}

describe('the built-in catalog', () => {
  test('pins the image of each engine, and an order can name another (gpus promise 20)', () => {
    for (const { image } of Object.values(builtInCatalog.engines)) {
      expect([image.name, image.tag]).not.toContain('latest')
    }
    const order: RecipeOrder = { name: 'vllm', hubModel: 'Qwen/Qwen3-8B' }
    expect(withCatalogDefaults(builtInCatalog, order).image).toEqual({ name: 'vllm/vllm-openai', tag: 'v0.33.0' })
    const engines = { ...builtInCatalog.engines, vllm: { image: { name: 'own/vllm', tag: '1' }, version: '1' } }
    expect(withCatalogDefaults({ ...builtInCatalog, engines }, order).image).toEqual({ name: 'own/vllm', tag: '1' })
    const own = { ...order, image: { name: 'mine', tag: '2' } }
    expect(withCatalogDefaults(builtInCatalog, own)).toMatchObject({ image: own.image })
    // The image is another one, so its CUDA version is not known.
    expect(withCatalogDefaults(builtInCatalog, own).cuda).toBeUndefined()
  })

  test.each(Object.entries(engineFlags))('names only flags and parsers that %s has', (name, known) => {
    expect(builtInCatalog.engines[name as 'vllm' | 'sglang']?.version).toBe(known.version)
    const parsers = builtInCatalog.families.flatMap((family) => family[name as 'vllm'] ?? [])
    expect(known.tools).toEqual(expect.arrayContaining(parsers.flatMap(({ tools = [] }) => tools)))
    expect(known.reasoning).toEqual(expect.arrayContaining(parsers.flatMap(({ reasoning = [] }) => reasoning)))
    const familyFlags = parsers.flatMap(({ args = [] }) => args).filter((word) => word.startsWith('--'))
    expect(known.flags).toEqual(expect.arrayContaining(familyFlags))
    for (const { id, variants } of builtInCatalog.models) {
      const args = variants.flatMap(({ engines }) => engines[name as 'vllm']?.args ?? [])
      for (const word of args.filter((one) => one.startsWith('--'))) expect(known.flags, id).toContain(word)
    }
    const order = { name: name as 'vllm', hubModel: 'Qwen/Qwen3-8B', contextTokens: 8_192, concurrency: 8 }
    const chat = { name: 'm', kind: 'chat', gpuCount: 2, apiKey: 'key' } as const
    for (const kind of ['chat', 'embedding'] as const) {
      const replica = replicaOf(withCatalogDefaults(builtInCatalog, order), { ...chat, kind })
      const words = replica.ok ? (replica.value.args ?? []) : []
      expect(words.length).toBeGreaterThan(5)
      for (const word of words.filter((one) => one.startsWith('--'))) expect(known.flags).toContain(word)
    }
  })

  test.each([
    ['Qwen/Qwen3-8B', 'hermes', 'qwen3'],
    ['Qwen/Qwen3-Coder-30B-A3B-Instruct', 'qwen3_coder', 'qwen3'],
    ['Qwen/Qwen3.8-27B-FP8', 'qwen3_coder', 'qwen3'],
    ['meta-llama/Llama-3.1-8B-Instruct', 'llama3_json', undefined],
    ['deepseek-ai/DeepSeek-V3.2', 'deepseek_v32', 'deepseek_v3'],
    ['openai/gpt-oss-20b', 'openai', undefined],
    ['zai-org/GLM-4.7', 'glm47', 'glm45'],
    ['moonshotai/Kimi-K2.6', 'kimi_k2', 'kimi_k2'],
    ['someone/unknown-7b', undefined, undefined],
  ])('finds the parsers of %s for vLLM (gpus promise 19)', (hubModel, tools, reasoning) => {
    const { parsers } = withCatalogDefaults(builtInCatalog, { name: 'vllm', hubModel })
    expect([parsers?.tools, parsers?.reasoning]).toEqual([tools, reasoning])
  })

  test('passes parsers as flags, and none where the order has none', () => {
    const order = withCatalogDefaults(builtInCatalog, { name: 'vllm', hubModel: 'Qwen/Qwen3-8B' })
    const chat = { name: 'm', kind: 'chat', gpuCount: 1, apiKey: null } as const
    const replica = replicaOf(order, chat)
    const text = replica.ok ? replica.value.args?.join(' ') : ''
    expect(text).toContain('--enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3')
    const bare = replicaOf(withCatalogDefaults(builtInCatalog, { ...order, parsers: {} }), chat)
    expect(bare.ok && bare.value.args?.join(' ')).not.toContain('parser')
  })
})

describe('the cheapest fit', () => {
  test('is the cheapest GPUs that the model fits on, with no other choice to make (gpus promise 22)', () => {
    const fit = cheapestFit(builtInCatalog, modelOf('qwen3-8b'), [h200, l4, gpus('NVIDIA-T4', 15_360, '0.30')])
    expect(fit).toMatchObject({ ok: true, value: { precision: 'bf16', gpus: { gpuModel: 'NVIDIA-L4' } } })
    expect(fit.ok && fit.value.spec.recipe).toMatchObject({ name: 'vllm', hubModel: 'Qwen/Qwen3-8B' })
  })

  test('prefers several small GPUs if they cost less together', () => {
    const pair = gpus('NVIDIA-L40S', 46_068, '1.80', { gpuCount: 2 })
    const fit = cheapestFit(builtInCatalog, modelOf('llama-3.3-70b'), [h200, pair])
    expect(fit).toMatchObject({ ok: true, value: { spec: { gpus: { count: 2 } } } })
  })

  test('has a GPU count that divides the attention heads (gpus promise 24)', () => {
    const eight = gpus('NVIDIA-L4', 23_034, '0.10', { gpuCount: 8 })
    const twelve = { ...modelOf('qwen3-8b'), attentionHeads: 12 }
    expect(cheapestFit(builtInCatalog, twelve, [eight, l4])).toMatchObject({ value: { spec: { gpus: { count: 1 } } } })
    const order: RecipeOrder = { name: 'vllm', hubModel: 'a/b', attentionHeads: 32 }
    const memory = { gpuCount: 3, gpuRamMib: 80_000, ramGb: 100 }
    expect(whyTooLarge('a/b', order, memory)).toMatchObject({ reason: 'heads_not_divisible' })
  })

  test('is no machine whose driver is too old, and the reason names both versions (gpus promise 21)', () => {
    const old = gpus('NVIDIA-L4', 23_034, '0.10', { cuda: '12.4' })
    expect(cheapestFit(builtInCatalog, modelOf('qwen3-8b'), [old, h200])).toMatchObject({
      value: { gpus: { gpuModel: 'NVIDIA-H200' } },
    })
    const none = cheapestFit(builtInCatalog, modelOf('qwen3-8b'), [old])
    expect(none).toMatchObject({ ok: false, reason: 'driver_too_old' })
    expect(!none.ok && none.message).toMatch(/13\.0.*12\.4/)
    expect(whyDriverTooOld({ name: 'vllm', cuda: '12.9' }, '12.10')).toBeUndefined()
    expect(whyDriverTooOld({ name: 'vllm', cuda: '13.0' }, null)).toBeUndefined()
  })

  test('is no machine with GPUs of another vendor than the image is for (gpus promise 47)', () => {
    const amd = gpus('AMD-Instinct-MI300X', 196_592, '0.10', { vendor: 'amd', cuda: null })
    expect(cheapestFit(builtInCatalog, modelOf('qwen3-8b'), [amd, l4])).toMatchObject({
      value: { gpus: { gpuModel: 'NVIDIA-L4' } },
    })
    const none = cheapestFit(builtInCatalog, modelOf('qwen3-8b'), [amd])
    expect(none).toMatchObject({ ok: false, reason: 'gpu_vendor_differs' })
    expect(!none.ok && none.message).toMatch(/vllm.*NVIDIA.*AMD/)
    const order: RecipeOrder = { name: 'vllm', hubModel: 'Qwen/Qwen3-8B', gpuVendor: 'amd' }
    expect(withCatalogDefaults(builtInCatalog, order)).toMatchObject({ image: { name: 'vllm/vllm-openai-rocm' } })
    expect(withCatalogDefaults(builtInCatalog, order).cuda).toBeUndefined()
    // TEI has no image for them: the order must name its own.
    expect(withCatalogDefaults(builtInCatalog, { ...order, name: 'tei' }).image).toBeUndefined()
  })

  test('is never simulated', () => {
    const simulated = [gpus('NVIDIA-H100', 81_559, '0.01', { simulation: 'machine' })]
    expect(cheapestFit(builtInCatalog, modelOf('qwen3-8b'), simulated)).toMatchObject({
      reason: 'only_simulated_machines',
    })
    const pretended = [gpus('NVIDIA-H100', 81_559, '0.01', { simulation: 'gpus' })]
    expect(cheapestFit(builtInCatalog, modelOf('qwen3-8b'), pretended).ok).toBe(false)
  })

  test('fails with what is needed if nothing is free', () => {
    expect(cheapestFit(builtInCatalog, modelOf('qwen3-8b'), [])).toMatchObject({ reason: 'no_capacity' })
  })

  test('quotes the tokens that the cache holds: an H200 holds about 880,000 of Llama 8B (gpus promise 23)', () => {
    const order: RecipeOrder = { name: 'vllm', weightsGib: 15, kvBytesPerToken: 131_072 }
    const tokens = kvTokensOf(order, { gpuCount: 1, gpuRamMib: 143_771, ramGb: 100 }) ?? 0
    expect(Math.abs(tokens / 880_000 - 1)).toBeLessThan(0.15)
  })
})

describe('a catalog file', () => {
  test.each([
    ['a model twice', { models: [modelOf('qwen3-8b'), modelOf('qwen3-8b')] }, 'models.1.id'],
    ['an unknown family', { models: [{ ...modelOf('qwen3-8b'), family: 'nobody' }] }, 'models.0.family'],
    [
      'no engine',
      { models: [{ ...modelOf('qwen3-8b'), variants: [{ precision: 'x', minGb: 1, engines: {} }] }] },
      'models.0.variants.0.engines',
    ],
    ['a field that is not known', { prices: [] }, ''],
  ])('is refused with %s', (_, change, at) => {
    const parsed = catalogFile.safeParse({ ...builtInCatalog, ...change })
    expect(parsed.error?.issues[0]?.path.join('.')).toBe(at)
  })
})
