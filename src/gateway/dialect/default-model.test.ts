/** A request that names no model gets one that can answer. */
import { expect, test } from 'vitest'
import type { Catalog, Deployment, ServedModel } from '../catalog.ts'
import { defaultModel } from './chat-call.ts'

const deployment = { id: 'd', drained: false, weight: 1 } as Deployment
const pulling = { message: 'is being downloaded', retryAfterMs: 1_000, phase: 'pulling' as const }

function catalogOf(...models: ReadonlyArray<Partial<ServedModel> & { name: string }>): Catalog {
  const whole = models.map((model) => ({ kind: 'chat', deployments: [deployment], ...model }) as ServedModel)
  return new Map(whole.map((model) => [model.name, model]))
}

test('the default model of a kind is the first that is ready', () => {
  const catalog = catalogOf(
    { name: 'speech', kind: 'speech' },
    { name: 'downloading', deployments: [], notReady: pulling },
    { name: 'nothing runs it', deployments: [] },
    { name: 'drained', deployments: [{ ...deployment, drained: true }] },
    { name: 'ready' },
    { name: 'ready too' },
  )
  expect(defaultModel(catalog, 'chat')?.name).toBe('ready')
})

test('the default is the first registered model if none is ready', () => {
  const catalog = catalogOf({ name: 'downloading', deployments: [], notReady: pulling }, { name: 'b', deployments: [] })
  expect(defaultModel(catalog, 'chat')?.name).toBe('downloading')
  expect(defaultModel(catalog, 'image')).toBeUndefined()
})
