/** Probes that engines get besides calls, and their effect. */
import net from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { waitFor } from '../../../test/harness/wait.ts'
import {
  AnswerCollector,
  callOn,
  deploymentOn,
  modelOn,
  type SimulatedModel,
} from '../../../test/sim/model-server-caller.ts'
import { startModelServer, type ModelServer } from '../../../test/sim/model-server.ts'
import { makeDispatcher, type RunningDispatcher } from './dispatch.ts'
import type { ProbeRhythm } from './probe.ts'

const closers: Array<() => Promise<void>> = []

afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function startEngine(port = 0): Promise<ModelServer> {
  const server = await startModelServer({ port })
  closers.push(() => server.close())
  return server
}

const quick: ProbeRhythm = {
  tickMs: 10,
  openMs: 20,
  idleMs: 20,
  metricsMs: 20,
  waitingMetricsMs: 20,
  noMetricsMs: 20,
  stuckMs: 3_600_000,
  stuckCheckMs: 20,
  checkMs: 20,
}

function startDispatcher(model: SimulatedModel, rhythm: Partial<ProbeRhythm> = {}): RunningDispatcher {
  const dispatcher = makeDispatcher({ probe: { ...quick, ...rhythm }, random: () => 0.5 })
  closers.push(() => dispatcher.close())
  dispatcher.setCatalog(new Map([[model.name, model]]))
  return dispatcher
}

function ask(dispatcher: RunningDispatcher, model: SimulatedModel): Promise<AnswerCollector> {
  const sink = new AnswerCollector()
  dispatcher.send(callOn(model), sink)
  return sink.done
}

const breakerOf = (dispatcher: RunningDispatcher): string | undefined => dispatcher.stats().deployments[0]?.breaker

describe('health', () => {
  test('notices that an idle engine died, and that it is back, before the next call', async () => {
    const engine = await startEngine()
    const model = modelOn([deploymentOn(engine)])
    const dispatcher = startDispatcher(model)
    await waitFor('it is asked', () => engine.probes > 2)
    expect(breakerOf(dispatcher)).toBe('closed')
    await engine.close()
    await waitFor('it is known', () => breakerOf(dispatcher) === 'open')
    const again = await startEngine(engine.port)
    await waitFor('it is checked and in use again', () => breakerOf(dispatcher) === 'closed')
    expect([(await ask(dispatcher, model)).status, again.received, again.checks]).toEqual([200, 1, 1])
  })

  test('leaves an engine alone that reports itself unhealthy', async () => {
    const engine = await startEngine()
    engine.behaviour.health = 503
    const dispatcher = startDispatcher(modelOn([deploymentOn(engine)]))
    await waitFor('it is known', () => breakerOf(dispatcher) === 'open')
    engine.behaviour.health = 200
    await waitFor('it to be healthy', () => breakerOf(dispatcher) === 'closed')
    expect(engine.checks).toBe(1)
  })

  test.each([401, 405])('an engine that answers %i is alive', async (status) => {
    const engine = await startEngine()
    engine.behaviour.health = status
    const dispatcher = startDispatcher(modelOn([deploymentOn(engine)]))
    await waitFor('it is asked', () => engine.probes > 3)
    expect(breakerOf(dispatcher)).toBe('closed')
  })

  test('asks an engine without a health endpoint for its models', async () => {
    const paths: string[] = []
    const server = net.createServer((socket) => {
      socket.on('data', (bytes) => {
        const path = bytes.toString().split(' ')[1] ?? ''
        if (/health|models/.test(path)) paths.push(path)
        const status = path === '/base/health' ? '404 Not Found' : '500 Down'
        socket.write(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\n\r\n`)
      })
      socket.on('error', () => {})
    })
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    closers.push(() => new Promise<void>((done) => server.close(() => done())))
    const { port } = server.address() as net.AddressInfo
    const dispatcher = startDispatcher(modelOn([deploymentOn({ host: '127.0.0.1', port }, { basePath: '/base' })]))
    await waitFor('it is known', () => breakerOf(dispatcher) === 'open')
    expect(paths.slice(0, 3)).toEqual(['/base/health', '/base/v1/models', '/base/v1/models'])
  })

  test('does not probe deployments in use or drained', async () => {
    const [busy, drained, idle] = [await startEngine(), await startEngine(), await startEngine()]
    busy.behaviour.fault = { kind: 'hang' }
    const model = modelOn([
      deploymentOn(busy, { id: 'busy' }),
      deploymentOn(drained, { id: 'drained', drained: true }),
      deploymentOn(idle, { id: 'idle', weight: 0.001 }),
    ])
    const dispatcher = startDispatcher(model, { tickMs: 5, idleMs: 30 })
    void ask(dispatcher, model)
    await waitFor('the idle one is asked', () => idle.probes > 5)
    expect([busy.probes, drained.probes]).toEqual([0, 0])
  })
})

describe('load', () => {
  test('counts calls of other gateways as load', async () => {
    const [a, b] = [await startEngine(), await startEngine()]
    a.behaviour.metrics = 'vllm:num_requests_running{} 20\nvllm:num_requests_waiting{} 7\n'
    b.behaviour.metrics = 'llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n'
    const model = modelOn([deploymentOn(a, { id: 'a' }), deploymentOn(b, { id: 'b' })])
    const dispatcher = startDispatcher(model)
    await waitFor('both are known', () => dispatcher.stats().deployments.every(({ load }) => load !== undefined))
    expect(dispatcher.stats().deployments).toMatchObject([
      { id: 'a', load: { running: 20, waiting: 7 } },
      { id: 'b', load: { running: 1, waiting: 0 } },
    ])
    for (let n = 0; n < 6; n += 1) expect((await ask(dispatcher, model)).answer?.deployment.id).toBe('b')
    a.behaviour.metrics = 'vllm:num_requests_running{} 0\nvllm:num_requests_waiting{} 0\n'
    await waitFor('a is free', () => dispatcher.stats().deployments[0]?.load?.running === 0)
    expect((await ask(dispatcher, model)).answer?.deployment.id).toBe('a')
  })

  test('unknown metrics change nothing', async () => {
    const engine = await startEngine()
    engine.behaviour.metrics = 'nonsense\n'.repeat(400_000)
    const dispatcher = startDispatcher(modelOn([deploymentOn(engine)]), { idleMs: 3_600_000 })
    await waitFor('it is asked', () => engine.metricsReads > 3)
    expect(dispatcher.stats().deployments).toMatchObject([{ load: undefined, breaker: 'closed' }])
  })
})
