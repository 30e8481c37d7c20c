/** Operators see the health of a deployment as the dispatcher observed it. */
import { expect, test } from 'vitest'
import { instantOf } from '../../base/instant.ts'
import { zeroUsd } from '../../base/money.ts'
import type { Deployment, ServedModel } from '../../gateway/catalog.ts'
import { makeDispatcher } from '../../gateway/dispatch/dispatch.ts'
import { makeModelStatus } from './model-status.ts'

test('reports the health of a deployment in use, and none of another', async () => {
  const deployment: Deployment = {
    id: 'dep_1',
    protocol: 'chat',
    // Nothing listens there.
    address: { kind: 'tcp', host: '127.0.0.1', port: 9, tls: false },
    hostHeader: '127.0.0.1:9',
    basePath: '',
    upstreamModel: 'm',
    authorization: undefined,
    weight: 1,
    concurrency: 4,
    connectMs: 1_000,
    firstByteMs: 1_000,
    betweenBytesMs: 1_000,
    totalMs: 1_000,
    readsMetrics: false,
    drained: false,
  }
  const prices = {
    input: zeroUsd,
    cached: zeroUsd,
    output: zeroUsd,
    pixelStep: zeroUsd,
    character: zeroUsd,
    soundMs: zeroUsd,
  }
  const model: ServedModel = {
    name: 'm',
    kind: 'chat',
    contextTokens: null,
    maxOutputTokens: null,
    prices,
    supportsTools: false,
    supportsImageInput: false,
    createdAt: instantOf(0),
    deployments: [deployment],
    notReady: undefined,
  }
  const dispatcher = makeDispatcher()
  dispatcher.setCatalog(new Map([['m', model]]))
  const state = { state: 'ready', doneBytes: null, totalBytes: null, message: null, retryInMs: null } as const
  const status = makeModelStatus({ localState: (name) => (name === 'm' ? state : undefined) }, () => [
    dispatcher.stats(),
  ])
  expect(status.localState('m')).toEqual(state)
  expect(status.localState('n')).toBeUndefined()
  expect(status.deploymentHealth('dep_1')).toEqual({
    breaker: 'closed',
    inFlight: 0,
    limit: 4,
    queued: null,
    faults: 0,
  })
  expect(status.deploymentHealth('dep_2')).toBeUndefined()
  const failed = new Promise<void>((resolve) => {
    const request = { path: '/v1/chat/completions', extraHeaders: '', contentType: 'application/json', body: [] }
    const call = {
      model,
      accountId: 'a',
      request: () => request,
      prefixes: [],
      prefixTokens: [],
      session: undefined,
      isBatch: false,
      promptTokens: 0,
    }
    dispatcher.send(call, { head: () => {}, data: () => {}, end: () => {}, fail: () => resolve() })
  })
  await failed
  expect(status.deploymentHealth('dep_1')?.faults).toBeGreaterThan(0)
  await dispatcher.close()
})
