/** Who gets an engine's work when accounts, keys and lengths of requests differ. */
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ToyEngine } from '../../../test/sim/toy-engine.ts'
import { FairQueue, type Waiter } from './fair-queue.ts'

const limits = { calls: 10_000, callsPerAccount: 10_000, waitMs: 30_000, unreadMs: 5_000 }

interface Client {
  readonly accountId: string
  readonly streams: number
  readonly promptTokens: number
  readonly outputTokens: number
  readonly isBatch?: boolean
}

interface WaitingCall extends Waiter {
  readonly client: Client
}

/** Weighted tokens per account after so many seconds of constant demand at an engine with so many slots. */
function shareOut(clients: readonly Client[], slots: number, seconds: number): Map<string, number> {
  const queue = new FairQueue<WaitingCall>(limits)
  const engine = new ToyEngine({ slots, kvTokens: 10_000_000 })
  const shares = new Map(clients.map(({ accountId }) => [accountId, 0]))
  let free = slots + 4
  const charge = (account: { readonly id: string; served: number }, tokens: number): void => {
    account.served += tokens
    shares.set(account.id, (shares.get(account.id) ?? 0) + tokens)
  }
  const ask = (client: Client): void => {
    const { accountId, isBatch = false, promptTokens, outputTokens } = client
    const cost = promptTokens + 2 * outputTokens
    const none = { line: undefined, before: undefined, after: undefined }
    queue.add({ client, accountId, isBatch, cost, queuedAt: 0, ...none }, false)
  }
  const serve = (): void => {
    for (; free > 0; free -= 1) {
      const next = queue.take(() => true)
      if (next === undefined) return
      const { client } = next
      const account = queue.begin(client.accountId)
      charge(account, client.promptTokens)
      engine.send({
        ...client,
        firstToken: () => {},
        token: () => charge(account, 2),
        ended: () => {
          queue.end(account)
          free += 1
          ask(client)
        },
      })
    }
  }
  for (const client of clients) for (let n = 0; n < client.streams; n += 1) ask(client)
  for (let now = 0; now < seconds * 1_000;) {
    serve()
    now += engine.step(now)
  }
  return shares
}

describe('equal demand gets equal work (gpus promise 7)', () => {
  test.each<[string, Partial<Client>, Partial<Client>]>([
    ['more streams', { streams: 400 }, { streams: 100 }],
    ['longer answers', { outputTokens: 400 }, { outputTokens: 50 }],
    ['longer prompts', { promptTokens: 2_000 }, { promptTokens: 100 }],
    ['prompts against answers', { promptTokens: 2_000, outputTokens: 10 }, { promptTokens: 20, outputTokens: 300 }],
  ])('whoever has %s', (_, one, other) => {
    const usual = { streams: 100, promptTokens: 100, outputTokens: 128 }
    const shares = shareOut(
      [
        { ...usual, ...one, accountId: 'one' },
        { ...usual, ...other, accountId: 'other' },
      ],
      64,
      60,
    )
    expect((shares.get('one') ?? 0) / (shares.get('other') ?? 1)).toBeGreaterThan(0.9)
    expect((shares.get('one') ?? 0) / (shares.get('other') ?? 1)).toBeLessThan(1.1)
  })
})

function waiterOf(accountId: string, fields: Partial<Waiter> = {}): Waiter {
  const place = { line: undefined, before: undefined, after: undefined }
  return { accountId, isBatch: false, cost: 100, queuedAt: 0, ...place, ...fields }
}

test('a new account’s call is the next, whatever others have queued (gpus promise 6)', () => {
  const others = fc.array(fc.record({ who: fc.constantFrom('a', 'b', 'c'), served: fc.nat(10_000) }), {
    minLength: 1,
    maxLength: 100,
  })
  fc.assert(
    fc.property(others, (calls) => {
      const queue = new FairQueue<Waiter>(limits)
      for (const { who, served } of calls) {
        queue.begin(who).served += served
        queue.add(waiterOf(who), false)
      }
      queue.add(waiterOf('new'), false)
      expect(queue.take(() => true)?.accountId).toBe('new')
    }),
  )
})

test('time without requests is no credit', () => {
  const queue = new FairQueue<Waiter>(limits)
  const busy = queue.begin('busy')
  const brief = queue.begin('brief')
  queue.end(brief)
  busy.served += 100_000
  for (let n = 0; n < 4; n += 1) for (const who of ['brief', 'busy']) queue.add(waiterOf(who), false)
  const order = Array.from({ length: 4 }, () => {
    const next = queue.take(() => true)?.accountId ?? ''
    queue.begin(next).served += 100
    return next
  })
  expect(order).toEqual(['brief', 'busy', 'brief', 'busy'])
})

describe('batch', () => {
  test('takes slots that nobody waits for, and one in sixteen while others do', () => {
    const queue = new FairQueue<Waiter>(limits)
    queue.add(waiterOf('night', { isBatch: true }), false)
    expect(queue.take(() => true)?.isBatch).toBe(true)
    for (let n = 0; n < 40; n += 1) {
      queue.add(waiterOf('day'), false)
      queue.add(waiterOf('night', { isBatch: true }), false)
    }
    const order = Array.from({ length: 48 }, () => (queue.take(() => true)?.isBatch === true ? 'b' : '.')).join('')
    expect(order).toBe(`${'.'.repeat(15)}b`.repeat(2) + `${'.'.repeat(10)}bbbbbb`)
  })

  test('of one account does not delay its own interactive calls', () => {
    const queue = new FairQueue<Waiter>(limits)
    for (let n = 0; n < 10; n += 1) queue.add(waiterOf('a', { isBatch: true }), false)
    queue.add(waiterOf('a'), false)
    expect(queue.take(() => true)?.isBatch).toBe(false)
  })
})

test('the work ahead of a call is what is sent before it, up to one call of each other account', () => {
  const calls = fc.array(fc.record({ who: fc.constantFrom('a', 'b', 'c'), cost: fc.integer({ min: 1, max: 500 }) }), {
    maxLength: 40,
  })
  fc.assert(
    fc.property(calls, fc.constantFrom('a', 'd'), (before, who) => {
      const queue = new FairQueue<Waiter>(limits)
      for (const call of before) queue.add(waiterOf(call.who, { cost: call.cost }), false)
      const own = waiterOf(who, { cost: 50 })
      const ahead = queue.costAhead(own)
      queue.add(own, false)
      let sent = 0
      for (let next = queue.take(() => true); next !== undefined && next !== own; next = queue.take(() => true)) {
        sent += next.cost
        queue.begin(next.accountId).served += next.cost
      }
      expect(sent).toBeGreaterThanOrEqual(ahead)
      expect(sent).toBeLessThanOrEqual(ahead + 3 * 500)
    }),
  )
})
