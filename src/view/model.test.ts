import { describe, expect, test } from 'vitest'
import {
  deploymentBusy,
  deploymentState,
  modelPlaces,
  modelPrice,
  modelState,
  progressLabel,
  type Deployment,
  type LocalState,
  type Model,
} from './model.ts'

const deployment = (over: Partial<Deployment> = {}): Deployment =>
  ({ drained: false, weight: 1, health: null, ...over }) as Deployment
const health = (breaker: 'closed' | 'open' | 'half_open') => ({
  breaker,
  inFlight: 0,
  limit: 412,
  queued: null,
  faults: 0,
})
const local = (over: Partial<LocalState>): LocalState => ({
  state: 'ready',
  doneBytes: null,
  totalBytes: null,
  message: null,
  retryInMs: null,
  ...over,
})
const model = (over: Partial<Model>): Model =>
  ({ kind: 'chat', enabled: true, engine: null, local: null, deployments: [], ...over }) as Model

describe('the state of a model', () => {
  test.each([
    [{ enabled: false }, 'disabled'],
    [{ local: local({}) }, 'ready'],
    [{ deployments: [deployment()] }, 'ready'],
    [{ deployments: [deployment({ health: health('open') })] }, 'no healthy deployment'],
    [{ deployments: [deployment({ health: health('half_open') })] }, 'no healthy deployment'],
    [{ deployments: [deployment({ drained: true })] }, 'no healthy deployment'],
    [{ local: local({ state: 'failed' }) }, 'failed'],
    [{ local: local({ state: 'pulling' }) }, 'downloading'],
    [{ local: local({ state: 'loading' }) }, 'starting'],
    [{ engine: 'llama' }, 'no local engine'],
    [{}, 'no deployment'],
    // The built-in image engine is ready, but the deployment that replaces it is not.
    [
      { engine: 'picture', local: local({}), deployments: [deployment({ health: health('open') })] },
      'no healthy deployment',
    ],
  ] as const)('%j is %s', (over, label) => expect(modelState(model(over as Partial<Model>)).label).toBe(label))

  test('a download shows its progress', () => {
    expect(progressLabel(local({ doneBytes: 136_000_000, totalBytes: 323_000_000 }))).toBe('42% of 323 MB')
    expect(progressLabel(local({ doneBytes: 136_000_000 }))).toBe('136 MB')
  })
})

test.each([
  [deployment({ drained: true }), 'drained'],
  [deployment({ weight: 0 }), 'weight 0'],
  [deployment(), 'not used here'],
  [deployment({ health: health('closed') }), 'healthy'],
  [deployment({ health: health('half_open') }), 'recovering'],
  [deployment({ health: health('open') }), 'failing'],
])('deployment %# is %s', (one, label) => expect(deploymentState(one).label).toBe(label))

test('a learned limit is marked as such, and a maximum that the operator has set is not', () => {
  const busy = { ...health('closed'), inFlight: 12 }
  expect(deploymentBusy({ health: busy, concurrency: 100_000 })).toBe('12 of 412 (auto)')
  expect(deploymentBusy({ health: { ...busy, limit: 64 }, concurrency: 64 })).toBe('12 of 64')
  expect(deploymentBusy({ health: null, concurrency: 64 })).toBe('—')
})

test('prices name their units', () => {
  const prices = {
    inputUsdPerMillion: '0.1',
    cachedUsdPerMillion: '0.1',
    outputUsdPerMillion: '0.4',
    pixelStepUsdPerMillion: '0.002',
    characterUsdPerMillion: '15',
  }
  expect(modelPrice(model(prices))).toBe('$0.10 in, $0.40 out per million tokens')
  expect(modelPrice(model({ ...prices, cachedUsdPerMillion: '0.05' }))).toBe(
    '$0.10 in, $0.05 cached, $0.40 out per million tokens',
  )
  expect(modelPrice(model({ ...prices, kind: 'embedding' }))).toBe('$0.10 per million tokens')
  expect(modelPrice(model({ ...prices, kind: 'image' }))).toBe('$0.002 per megapixel per step')
  expect(modelPrice(model({ ...prices, kind: 'speech' }))).toBe('$15.00 per million characters')
})

test('places name local engines and deployments', () => {
  expect(modelPlaces(model({ engine: 'llama', deployments: [deployment(), deployment({ drained: true })] }))).toBe(
    'local, 2 deployments, 1 drained',
  )
})
