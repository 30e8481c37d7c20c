import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { recipe, recipeName, type RecipeOrder } from '../contract/recipe.ts'
import { gpuRamMibFor, memoryNeedOf, whyTooLarge } from './model-memory.ts'
import { isProven, readinessOf } from './readiness.ts'
import { replicaOf, type ReplicaContainer } from './recipe.ts'
import { engines } from './recipe-engine.ts'
import type { ServedModel } from './recipe-engine-type.ts'

const GIB = 1_073_741_824
const chat: ServedModel = { name: 'house/seven', kind: 'chat', gpuCount: 2, apiKey: 'key-1' }
const file = (path: string, bytes = 1_000) =>
  ({ path, bytes, sha256: 'a'.repeat(64), source: { kind: 'https', url: `https://files.test/${path}` } }) as const
const weights = { mountPath: '/models', files: [file('config.json'), file('model.safetensors', 14 * GIB)] }

function containerOf(order: RecipeOrder, model: ServedModel = chat): ReplicaContainer {
  const replica = replicaOf(order, model)
  if (!replica.ok) throw new Error(replica.message)
  return replica.value
}

function wordAfter(words: readonly string[] | null, flag: string): string | undefined {
  const at = words?.indexOf(flag) ?? -1
  return at === -1 ? undefined : words?.[at + 1]
}

describe('a recipe', () => {
  test('gives vLLM the mounted weights, all GPUs, the name of the model and a key that is not an argument', () => {
    const container = containerOf({ name: 'vllm', weights, contextTokens: 4_096, args: ['--enforce-eager'] })
    expect([container.command, container.args?.[0]]).toEqual([['vllm', 'serve'], '/models'])
    expect(wordAfter(container.args, '--tensor-parallel-size')).toBe('2')
    expect(wordAfter(container.args, '--served-model-name')).toBe('house/seven')
    expect(wordAfter(container.args, '--max-model-len')).toBe('4096')
    expect(container.args?.at(-1)).toBe('--enforce-eager')
    expect(container.args).not.toContain('key-1')
    expect(container.env).toEqual({ VLLM_API_KEY: 'key-1', HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1' })
    expect(container.metrics?.waiting).toBe('vllm:num_requests_waiting')
  })

  test.each(['vllm', 'sglang'] as const)('limits the requests of %s only if the order does (issue 31, 11)', (name) => {
    const flags = ['--max-num-seqs', '--max-running-requests', '--max-queued-requests']
    const free = containerOf({ name, weights })
    expect([free.concurrency, free.args?.filter((word) => flags.includes(word))]).toEqual([100_000, []])
    const stated = containerOf({ name, weights, concurrency: 16 })
    const flag = name === 'vllm' ? '--max-num-seqs' : '--max-running-requests'
    expect([stated.concurrency, wordAfter(stated.args, flag)]).toEqual([16, '16'])
  })

  test('keeps what an engine compiles for the next start, per model (gpus promise 25)', () => {
    const cacheOf = (name: RecipeOrder['name']) => containerOf({ name, hubModel: 'a/b' }).compileCache
    expect(cacheOf('vllm')).toMatchObject({
      model: 'house/seven',
      variables: expect.arrayContaining(['VLLM_CACHE_ROOT']),
    })
    expect(cacheOf('sglang')?.variables).toContain('TORCHINDUCTOR_CACHE_DIR')
    expect(cacheOf('tgi')).toBeNull()
  })

  test('leaves TGI its own limit (issue 31, 11)', () => {
    const { args, concurrency } = containerOf({ name: 'tgi', weights })
    expect([concurrency, wordAfter(args, '--max-concurrent-requests')]).toEqual([120, '128'])
  })

  test('lets the engine ask the hub only if there are no weights', () => {
    const container = containerOf({ name: 'sglang', hubModel: 'owner/seven' })
    expect(wordAfter(container.args, '--model-path')).toBe('owner/seven')
    expect(container.env['HF_HUB_OFFLINE']).toBeUndefined()
  })

  test('opens the first GGUF file of several, and no adapter', () => {
    const files = ['b-00002-of-00002.gguf', 'b-00001-of-00002.gguf', 'adapters/a.gguf'].map((path) => file(path))
    const order: RecipeOrder = {
      name: 'llama.cpp',
      weights: { mountPath: '/w', files },
      adapters: [{ name: 'house/poet', path: 'adapters/a.gguf' }],
    }
    const container = containerOf(order)
    expect(wordAfter(container.args, '--model')).toBe('/w/b-00001-of-00002.gguf')
    expect(wordAfter(container.args, '--lora')).toBe('/w/adapters/a.gguf')
    expect(container.adapters).toEqual([
      { name: 'house/poet', upstreamModel: 'house/seven', members: { lora: [{ id: 0, scale: 1 }] } },
    ])
  })

  test('serves adapters as models of their own where the engine can', () => {
    const adapters = [{ name: 'house/poet', path: 'poet' }]
    const order = (name: RecipeOrder['name']): RecipeOrder => ({
      name,
      weights: { ...weights, files: [...weights.files, file('poet/adapter_model.safetensors')] },
      adapters,
    })
    const vllm = containerOf(order('vllm'))
    expect(wordAfter(vllm.args, '--lora-modules')).toBe('house/poet=/models/poet')
    expect(vllm.adapters[0]?.upstreamModel).toBe('house/poet')
    expect(containerOf(order('sglang')).adapters[0]?.members).toEqual({ lora_path: 'house/poet' })
    expect(replicaOf(order('berth-engine'), chat)).toMatchObject({ ok: false, reason: 'recipe_option' })
    expect(replicaOf({ ...order('vllm'), adapters: [{ name: 'x', path: 'prose' }] }, chat)).toMatchObject({ ok: false })
  })

  test('custom keeps the image, its command and its port', () => {
    const container = containerOf({ name: 'custom', image: { name: 'own/server' }, command: ['/serve'], port: 9_000 })
    expect(container).toMatchObject({
      image: { name: 'own/server', tag: null },
      command: ['/serve'],
      args: null,
      port: 9_000,
    })
  })

  test.each<[string, RecipeOrder, string]>([
    ['custom without an image', { name: 'custom' }, 'image'],
    ['vllm without a model', { name: 'vllm' }, 'weights'],
    ['two sources', { name: 'vllm', weights, hubModel: 'owner/seven' }, 'hubModel'],
    ['llama.cpp from the hub', { name: 'llama.cpp', hubModel: 'owner/seven' }, 'hubModel'],
    ['a command for vllm', { name: 'vllm', weights, command: ['sh'] }, 'command'],
    ['a path outside of the weights', { name: 'vllm', weights, modelPath: 'other' }, 'modelPath'],
  ])('rejects %s', (_, order, option) => {
    const replica = replicaOf(order, chat)
    expect(replica).toMatchObject({ ok: false, reason: 'recipe_option', issues: [{ path: ['recipe', option] }] })
  })

  test('rejects a kind of model that its engine does not serve', () => {
    expect(replicaOf({ name: 'vllm', weights }, { ...chat, kind: 'speech' })).toMatchObject({
      reason: 'recipe_mismatch',
    })
  })

  test('has no argument or variable that is undefined, empty or not text, for any engine and options', () => {
    const orders = fc.record({
      name: fc.constantFrom(...recipeName.options),
      contextTokens: fc.option(fc.integer({ min: 1, max: 100_000 }), { nil: undefined }),
      concurrency: fc.option(fc.integer({ min: 1, max: 512 }), { nil: undefined }),
    })
    fc.assert(
      fc.property(orders, fc.integer({ min: 1, max: 8 }), (options, gpuCount) => {
        const order = recipe.parse({ ...options, weights, image: { name: 'an/image' } })
        const [kind = 'chat'] = engines[order.name].kinds
        const container = containerOf(order, { ...chat, kind, gpuCount })
        const words = [...(container.command ?? []), ...(container.args ?? []), ...Object.values(container.env)]
        expect(words.every((word) => typeof word === 'string' && word !== '' && !word.includes('undefined'))).toBe(true)
      }),
    )
  })
})

describe('the memory of a model', () => {
  test.each([
    [14.2, 19.04],
    [135.4, 164.48],
  ])('%d GiB of 16-bit weights need %d GiB', (weightsGib, need) => {
    expect((memoryNeedOf({ name: 'vllm', weightsGib })?.bytes ?? 0) / GIB).toBeCloseTo(need, 2)
  })

  test('that does not fit is rejected with the arithmetic', () => {
    const order: RecipeOrder = { name: 'vllm', weights }
    const small = { gpuCount: 1, gpuRamMib: 16_384, ramGb: 64 }
    const refused = whyTooLarge('house/seven', order, small)
    expect(refused).toMatchObject({ ok: false, reason: 'model_does_not_fit', kind: 'no_capacity' })
    for (const number of ['18.8 GiB', '14.0 GiB', '1.2', '2 GiB', '14.4 GiB', '1 × 16.0 GiB', '90%']) {
      expect(refused?.message).toContain(number)
    }
    expect(whyTooLarge('house/seven', order, { ...small, gpuCount: 2 })).toBeUndefined()
  })

  test('fits exactly into the memory that is computed for it', () => {
    fc.assert(
      fc.property(fc.double({ min: 0.1, max: 2_000, noNaN: true }), fc.integer({ min: 1, max: 8 }), (gib, gpuCount) => {
        const order: RecipeOrder = { name: 'vllm', weightsGib: gib }
        const gpuRamMib = gpuRamMibFor(order, gpuCount) ?? 0
        expect(whyTooLarge('m', order, { gpuCount, gpuRamMib, ramGb: 1 })).toBeUndefined()
        expect(whyTooLarge('m', order, { gpuCount, gpuRamMib: gpuRamMib - 1, ramGb: 1 })).toBeDefined()
      }),
    )
  })

  test('of our own engine is that of the machine, and an unknown size rejects nothing', () => {
    const order: RecipeOrder = { name: 'berth-engine', weights }
    expect(gpuRamMibFor(order, 1)).toBeNull()
    expect(whyTooLarge('m', order, { gpuCount: 1, gpuRamMib: 1, ramGb: 64 })).toBeUndefined()
    expect(whyTooLarge('m', order, { gpuCount: 1, gpuRamMib: 80_000, ramGb: 8 })).toBeDefined()
    expect(whyTooLarge('m', { name: 'vllm', hubModel: 'a/b' }, { gpuCount: 1, gpuRamMib: 1, ramGb: 1 })).toBeUndefined()
  })
})

describe('a replica is ready', () => {
  const bytes = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value))

  test('only when it has done the smallest job of its kind', () => {
    const job = readinessOf('chat', chat)
    expect(job).toMatchObject({ path: '/v1/chat/completions', body: { model: 'house/seven', max_tokens: 1 } })
    const answer = { choices: [{ message: { content: '' } }], usage: { completion_tokens: 1 } }
    expect(isProven(job, 200, bytes(answer))).toBe(true)
    expect(isProven(job, 200, bytes({ ...answer, usage: { completion_tokens: 0 } }))).toBe(false)
    expect(isProven(job, 200, bytes({ status: 'ok' }))).toBe(false)
    expect(isProven(job, 200, new Uint8Array())).toBe(false)
    expect(isProven(job, 503, bytes(answer))).toBe(false)
  })

  test.each<[ServedModel['kind'], 'images' | 'speech' | 'chat' | 'embedded' | 'txt2img', unknown]>([
    ['embedding', 'chat', { data: [{ embedding: [0.1] }] }],
    ['image', 'images', { data: [{ b64_json: 'iVBO' }] }],
    ['image', 'embedded', { images: [{ image: 'iVBO' }] }],
    ['image', 'txt2img', { images: ['iVBO'] }],
    ['speech', 'embedded', { audio: 'SUQz' }],
  ])('for %s over %s', (kind, protocol, answer) => {
    const job = readinessOf(protocol, { ...chat, kind })
    expect(isProven(job, 200, bytes(answer))).toBe(true)
    expect(isProven(job, 200, bytes({ data: [], images: [] }))).toBe(false)
  })
})
