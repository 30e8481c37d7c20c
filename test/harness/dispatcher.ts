/** Dispatchers and simulated engines, closed when their test ends. */
import { expect, onTestFinished } from 'vitest'
import {
  AnswerCollector,
  deploymentOn,
  modelOn,
  type SimulatedDeployment,
  type SimulatedModel,
} from '../sim/model-server-caller.ts'
import { startModelServer, type ModelServer, type ModelServerOptions } from '../sim/model-server.ts'
import type { Catalog } from '../../src/gateway/catalog.ts'
import { makeDispatcher, type DispatcherOptions, type RunningDispatcher } from '../../src/gateway/dispatch/dispatch.ts'
import type { TargetStats } from '../../src/gateway/dispatch/routing-target.ts'
import type { UpstreamCall, UpstreamHandle } from '../../src/gateway/upstream/upstream-call.ts'

export async function startEngine(options: ModelServerOptions = {}): Promise<ModelServer> {
  const server = await startModelServer(options)
  onTestFinished(() => server.close())
  return server
}

/** Health checks are rare unless a test is about them. */
export function startDispatcher(model: SimulatedModel, options: DispatcherOptions = {}): RunningDispatcher {
  const dispatcher = makeDispatcher({ probe: { tickMs: 3_600_000 }, random: () => 0.5, ...options })
  onTestFinished(() => dispatcher.close())
  dispatcher.setCatalog(catalogOf(model))
  return dispatcher
}

export const catalogOf = (...models: readonly SimulatedModel[]): Catalog =>
  new Map(models.map((one) => [one.name, one]))

export interface Sent {
  readonly sink: AnswerCollector
  readonly handle: UpstreamHandle
}

export function send(dispatcher: RunningDispatcher, call: UpstreamCall, onData?: (bytes: Buffer) => void): Sent {
  const sink = new AnswerCollector(onData)
  const handle = dispatcher.send(call, sink)
  expect([sink.answer, sink.isOver], 'nothing is reported before the handle is returned').toEqual([undefined, false])
  return { sink, handle }
}

export const ask = (dispatcher: RunningDispatcher, call: UpstreamCall): Promise<AnswerCollector> =>
  send(dispatcher, call).sink.done

export function statsOf(dispatcher: RunningDispatcher, id: string): TargetStats {
  const found = dispatcher.stats().deployments.find((one) => one.id === id)
  if (found === undefined) throw new Error(`no deployment ${id}`)
  return found
}

interface Pair {
  readonly a: ModelServer
  readonly b: ModelServer
  readonly model: SimulatedModel
  readonly dispatcher: RunningDispatcher
}

/** `a` is tried first because of its weight. */
export async function startPair(
  more: Partial<SimulatedDeployment> = {},
  options: DispatcherOptions = {},
): Promise<Pair> {
  const [a, b] = [await startEngine(), await startEngine()]
  const model = modelOn([deploymentOn(a, { id: 'a', ...more }), deploymentOn(b, { id: 'b', ...more })])
  return { a, b, model, dispatcher: startDispatcher(model, options) }
}
