import { expect, test } from 'vitest'
import type { RecipeOrder } from '../../contract/recipe.ts'
import { replicaOf } from '../../domain/recipe.ts'
import { readContainerOptions } from './options.ts'

const file = {
  path: 'm.gguf',
  bytes: 1,
  sha256: 'a'.repeat(64),
  source: { kind: 's3', bucket: 'abc', object: 'k' },
} as const

test('the program of the engine image takes every argument of its recipe', () => {
  for (const kind of ['chat', 'embedding', 'image', 'speech'] as const) {
    const order: RecipeOrder = {
      name: 'berth-engine',
      contextTokens: 512,
      concurrency: 2,
      ...(kind === 'chat' ? { weights: { mountPath: '/models', files: [file] } } : {}),
    }
    const replica = replicaOf(order, { name: 'a/b', kind, gpuCount: 1, apiKey: 'secret' })
    if (!replica.ok) throw new Error(replica.message)
    const { start } = readContainerOptions(replica.value.args ?? [], replica.value.env, 3)
    const chat = kind === 'chat' ? { file: '/models/m.gguf', contextTokens: 512, sequences: 2 } : {}
    expect(start).toEqual({ model: 'a/b', port: 8_000, queue: 8, threads: 3, apiKey: 'secret', ...chat })
  }
})

test.each([
  [['--kind', 'chat', '--name', 'x']],
  [['--kind', 'poem', '--name', 'x']],
  [['--name', 'x']],
  [['--colour', 'red']],
])('it rejects %j', (args) => {
  expect(() => readContainerOptions(args, {}, 1)).toThrow(/--/)
})
