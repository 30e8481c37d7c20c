/** The limit that a dispatcher learns from an engine on a real port. */
import { afterEach, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import {
  AnswerCollector,
  callOn,
  deploymentOn,
  modelOn,
  type SimulatedDeployment,
} from '../../../test/sim/model-server-caller.ts'
import { startModelServer, type ModelServer } from '../../../test/sim/model-server.ts'
import { makeDispatcher, type DispatcherOptions, type RunningDispatcher } from './dispatch.ts'

const closers: Array<() => Promise<void>> = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function startEngine(): Promise<ModelServer> {
  const engine = await startModelServer()
  closers.push(() => engine.close())
  return engine
}

const quick = { tickMs: 5, metricsMs: 10, waitingMetricsMs: 10, noMetricsMs: 10, idleMs: 3_600_000 }

function startOn(
  engine: ModelServer,
  deployment: Partial<SimulatedDeployment> = {},
  options: DispatcherOptions = {},
): { dispatcher: RunningDispatcher; send: (calls: number) => AnswerCollector[] } {
  const model = modelOn([deploymentOn(engine, { id: 'd', concurrency: 100_000, ...deployment })])
  const dispatcher = makeDispatcher({ probe: quick, random: () => 0.5, ...options })
  closers.push(() => dispatcher.close())
  dispatcher.setCatalog(new Map([[model.name, model]]))
  const send = (calls: number): AnswerCollector[] =>
    Array.from({ length: calls }, () => {
      const sink = new AnswerCollector()
      dispatcher.send(callOn(model), sink)
      return sink
    })
  return { dispatcher, send }
}

const limitOf = (dispatcher: RunningDispatcher): number | undefined => dispatcher.limitOf('d')

test('metrics are read without being enabled, and calls that wait raise the limit (gpus promise 1)', async () => {
  const engine = await startEngine()
  engine.behaviour.fault = { kind: 'hang' }
  const { dispatcher, send } = startOn(engine)
  await waitFor('the start with metrics', () => limitOf(dispatcher) === 256)
  send(600)
  await waitFor('all of them are there', () => engine.inFlight === 600)
  expect(limitOf(dispatcher)).toBe(1_024)
})

test('an explicit limit is a maximum, and the engine never gets more (gpus promise 10)', async () => {
  const engine = await startEngine()
  engine.behaviour.fault = { kind: 'hang' }
  const { dispatcher, send } = startOn(engine, { concurrency: 40 })
  send(100)
  await waitFor('they are there', () => engine.inFlight === 40)
  const reads = engine.metricsReads
  await waitFor('more samples', () => engine.metricsReads > reads + 5)
  expect([engine.peakInFlight, limitOf(dispatcher)]).toEqual([40, 40])
})

test('an engine that states its slots gets as many, and a short queue', async () => {
  const engine = await startEngine()
  engine.behaviour.metrics = 'llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n'
  engine.behaviour.pages = { '/props': { total_slots: 8 } }
  const { dispatcher } = startOn(engine)
  await waitFor('its slots are known', () => (limitOf(dispatcher) ?? 0) < 32)
  expect(limitOf(dispatcher)).toBe(12)
})

test('an engine that refuses beyond a number never gets more', async () => {
  const engine = await startEngine()
  engine.behaviour.metrics = 'te_queue_size 0\n'
  engine.behaviour.pages = { '/info': { max_concurrent_requests: 20 } }
  const { dispatcher } = startOn(engine)
  await waitFor('its limit is known', () => (limitOf(dispatcher) ?? 0) < 32)
  expect(limitOf(dispatcher)).toBe(20)
})

test('lost metrics keep the limit and stop no call (gpus promise 9)', async () => {
  const engine = await startEngine()
  const { dispatcher, send } = startOn(engine)
  await waitFor('the start with metrics', () => limitOf(dispatcher) === 256)
  engine.behaviour.metrics = 'nothing of this kind\n'
  const reads = engine.metricsReads
  await waitFor('it is asked on', () => engine.metricsReads > reads + 5)
  const answers = await Promise.all(send(3).map((sink) => sink.done))
  expect([limitOf(dispatcher), ...answers.map(({ status }) => status)]).toEqual([256, 200, 200, 200])
})

test('calls and queues of other processes of the gateway count (gpus promise 5)', async () => {
  const engine = await startEngine()
  engine.behaviour.fault = { kind: 'hang' }
  engine.behaviour.metrics = 'vllm:num_requests_running 200\nvllm:num_requests_waiting 0\n'
  const others = startOn(engine, { share: 100 }, { learns: false })
  others.send(101)
  await waitFor('one waits there', () => others.dispatcher.stats().models[0]?.queued === 1)
  const limits: number[] = []
  const { dispatcher } = startOn(
    engine,
    {},
    {
      others: () => [
        {
          deployments: others.dispatcher.stats().deployments.map((one) => ({ ...one, inFlight: 200 })),
          models: others.dispatcher.stats().models,
        },
      ],
      onLimit: () => limits.push(limitOf(dispatcher) ?? 0),
    },
  )
  await waitFor('the limit to rise', () => (limitOf(dispatcher) ?? 0) >= 512)
  expect(limits[0]).toBe(512)
  expect(engine.peakInFlight).toBe(100)
})

test('an engine that is stuck while its health page answers gets no more calls, until a check succeeds (gpus promise 11)', async () => {
  const engine = await startEngine()
  engine.behaviour.fault = { kind: 'hang' }
  engine.behaviour.metrics = 'vllm:num_requests_running 1\nvllm:num_requests_waiting 3\n'
  const { dispatcher, send } = startOn(engine, {}, { probe: { ...quick, stuckMs: 30, stuckCheckMs: 50 } })
  send(1)
  const isStuck = (): boolean => dispatcher.stats().deployments.some((one) => one.isStuck && one.breaker === 'open')
  await waitFor('it is found', isStuck)
  const [refused] = await Promise.all(send(1).map((sink) => sink.done))
  expect(refused?.failure?.kind).toBe('unreachable')
  engine.behaviour.fault = undefined
  await waitFor('a check succeeds', () => !isStuck())
  const [answer] = await Promise.all(send(1).map((sink) => sink.done))
  expect(answer?.status).toBe(200)
})

test('an engine that is silent but has no call waiting is left alone', async () => {
  const engine = await startEngine()
  engine.behaviour.fault = { kind: 'hang' }
  const { dispatcher, send } = startOn(engine, {}, { probe: { ...quick, stuckMs: 10, stuckCheckMs: 50 } })
  send(1)
  await waitFor('it is watched', () => engine.metricsReads > 10)
  expect([dispatcher.stats().deployments[0]?.isStuck, engine.checks]).toEqual([false, 0])
})
