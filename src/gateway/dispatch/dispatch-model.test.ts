/** How long a call may expect to wait, by what its model has done since calls wait. */
import { afterEach, expect, test } from 'vitest'
import { callOn, modelOn } from '../../../test/sim/model-server-caller.ts'
import { Ticker } from '../upstream/ticker.ts'
import { DispatchModel, type WaitingCall } from './dispatch-model.ts'

const limits = { calls: 10_000, callsPerAccount: 10_000, waitMs: 30_000, unreadMs: 5_000 }
const ticker = new Ticker()

afterEach(() => ticker.close())

function waitingOn(model: DispatchModel, accountId: string, promptTokens: number): WaitingCall {
  const call = { ...callOn(modelOn([])), accountId, promptTokens }
  return {
    call,
    accountId,
    isBatch: false,
    cost: model.costOf(call),
    queuedAt: 0,
    waitsSince: 0,
    tried: { isEmpty: true, timesOf: () => 0 },
    line: undefined,
    before: undefined,
    after: undefined,
    start: () => {},
    refuse: () => {},
  }
}

test('a call that would wait longer than it may is refused at once, and told when to come back', () => {
  const model = new DispatchModel('m', limits, ticker)
  const wait = (account: string, tokens: number) => model.wait(waitingOn(model, account, tokens), false)
  for (let n = 0; n < 400; n += 1) expect(wait('flood', 1_000)).toBeUndefined()
  // 10,000 tokens per second: 5,000 of prompts and 2,500 of output, which count twice.
  const running = model.begin({ ...callOn(modelOn([])), accountId: 'flood', promptTokens: 10_000 })
  model.charge(running, 5_000)
  model.tick(2_000)
  expect(wait('flood', 1_000)).toEqual({ detail: 'the wait would be too long', retryAfterMs: 10_000 })
  expect(model.stats()).toMatchObject({ queued: 400, rejected: 1 })
})

test('the flood of one account refuses no other', () => {
  const model = new DispatchModel('m', limits, ticker)
  for (let n = 0; n < 400; n += 1) model.wait(waitingOn(model, 'flood', 1_000), false)
  model.begin({ ...callOn(modelOn([])), accountId: 'flood', promptTokens: 20_000 })
  model.tick(2_000)
  expect(model.wait(waitingOn(model, 'other', 1_000), false)).toBeUndefined()
})

test('without a measured rate a call may try', () => {
  const model = new DispatchModel('m', limits, ticker)
  for (let n = 0; n < 5_000; n += 1) expect(model.wait(waitingOn(model, 'a', 100_000), false)).toBeUndefined()
})
