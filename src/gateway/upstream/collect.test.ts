/** Against a simulated engine of our own form, through the real dispatcher. */
import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import { startDispatcher, startEngine } from '../../../test/harness/dispatcher.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { grayPng } from '../../../test/sim/model-server-answer.ts'
import { callOn, deploymentOn, modelOn } from '../../../test/sim/model-server-caller.ts'
import type { Fault } from '../../../test/sim/model-server-fault.ts'
import type { ModelServer } from '../../../test/sim/model-server.ts'
import type { RunningDispatcher } from '../dispatch/dispatch.ts'
import { collect, type CollectFailure } from './collect.ts'
import type { MediaProgress } from './event-body.ts'
import type { UpstreamCall } from './upstream-call.ts'

interface Stage {
  readonly engine: ModelServer
  readonly dispatcher: RunningDispatcher
  readonly call: (accountId?: string) => UpstreamCall
}

async function stage(steps = 3): Promise<Stage> {
  const engine = await startEngine()
  const model = modelOn([deploymentOn(engine, { protocol: 'embedded', concurrency: 1 })])
  const body = { width: 16, height: 16, steps, stream: true }
  const request = () => ({
    path: '/v1/image/generation',
    extraHeaders: '',
    contentType: 'application/json',
    body: [JSON.stringify(body)],
  })
  return {
    engine,
    dispatcher: startDispatcher(model),
    call: (accountId = 'account-1') => callOn(model, { accountId, request }),
  }
}

function run({ dispatcher, call }: Stage, account?: string) {
  const reported: MediaProgress[] = []
  const gone = new AbortController()
  const outcome = collect(dispatcher, call(account), {
    maxBytes: 100_000,
    signal: gone.signal,
    onProgress: (progress) => reported.push(progress),
  })
  return { reported, outcome, leave: () => gone.abort() }
}

test('reads an answer in events like a plain one, and reports its steps', async () => {
  const { reported, outcome } = run(await stage())
  const done = await outcome
  if (!done.ok) throw new Error(JSON.stringify(done.failure))
  expect(done.value.head.status).toBe(200)
  const { images } = JSON.parse(done.value.body.toString()) as { images: Array<{ image: string }> }
  expect(images[0]?.image).toBe(grayPng(16, 16).toString('base64'))
  expect(reported.map((one) => (one.type === 'progress' ? one.step : one.type))).toEqual(['queued', 1, 2, 3])
})

test.each<[string, Fault, CollectFailure['kind']]>([
  ['ends its stream in the middle', { kind: 'finish', afterEvents: 3 }, 'broken'],
  ['resets the connection in the middle', { kind: 'reset', afterEvents: 3 }, 'broken'],
  ['sends a line without an end', { kind: 'long_line', bytes: 200_000 }, 'broken'],
  ['sends events that say nothing', { kind: 'split_character' }, 'broken'],
  ['answers 500', { kind: 'status', status: 500 }, 'status'],
])('an engine that %s has failed', async (_what, fault, kind) => {
  const staged = await stage()
  staged.engine.behaviour.fault = fault
  expect(await run(staged).outcome).toMatchObject({ ok: false, failure: { kind } })
})

test('keeps a complete answer when the connection breaks after it', async () => {
  const staged = await stage()
  staged.engine.behaviour.fault = { kind: 'reset', afterEvents: 5 }
  expect(await run(staged).outcome).toMatchObject({ ok: true, value: { head: { status: 200 } } })
})

test('cancels the engine when the client goes away, and knows which one it was', async () => {
  const staged = await stage(10_000)
  staged.engine.behaviour.intervalMs = 5
  const { reported, outcome, leave } = run(staged)
  await waitFor('the second step', () => reported.some((one) => one.type === 'progress' && one.step === 2))
  leave()
  expect(await outcome).toMatchObject({ ok: false, failure: { kind: 'gone', deployment: { protocol: 'embedded' } } })
  await waitFor('the engine to be stopped', () => staged.engine.requests[0]?.abortedAt !== undefined)
})

test('reports the place in the queue, and again when it changes', async () => {
  const staged = await stage()
  staged.engine.behaviour.fault = { kind: 'hang' }
  const working = run(staged)
  const first = run(staged)
  const second = run(staged)
  const other = run(staged, 'account-2')
  await waitFor('the engine is busy', () => staged.engine.received === 1)
  const queued = (ahead: number): MediaProgress => ({ type: 'queued', ahead })
  expect([working.reported, first.reported, second.reported, other.reported]).toEqual([
    [],
    [queued(1)],
    [queued(2)],
    // It has nothing at the engine yet, so it is next.
    [queued(1)],
  ])
  first.leave()
  expect(await first.outcome).toMatchObject({ ok: false, failure: { kind: 'gone', deployment: undefined } })
  other.leave()
  await waitFor('the next one moves up', () => second.reported.length > 1)
  await waitFor('it is next', () => isDeepStrictEqual(second.reported.at(-1), queued(1)))
  expect(other.reported).toEqual([queued(1)])
  for (const one of [working, second]) one.leave()
  await Promise.all([working.outcome, second.outcome, other.outcome])
})
