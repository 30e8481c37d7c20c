import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FairQueue, type Waiter } from './fair-queue.ts'

interface Named extends Waiter {
  readonly name: string
}

const waiterOf = (name: string, queuedAt = 0): Named => ({
  name,
  accountId: name.charAt(0),
  isBatch: name.includes('~'),
  cost: 1,
  queuedAt,
  line: undefined,
  before: undefined,
  after: undefined,
})

const plenty = { calls: 1_000, callsPerAccount: 1_000, waitMs: 1_000, unreadMs: 1_000 }

function fill(queue: FairQueue<Named>, names: readonly string[]): Map<string, Named> {
  const waiters = new Map(names.map((name) => [name, waiterOf(name)]))
  for (const waiter of waiters.values()) expect(queue.add(waiter, false)).toBe(true)
  return waiters
}

function drain(queue: FairQueue<Named>): string {
  const order: string[] = []
  for (let one = queue.take(() => true); one !== undefined; one = queue.take(() => true)) order.push(one.name)
  return order.join(' ')
}

describe('turns', () => {
  test.each([
    ['inside an account the first comes first', 'a1 a2 a3', 'a1 a2 a3'],
    ['accounts take turns, in the order in which they came', 'a1 a2 a3 b1 b2 c1', 'a1 b1 c1 a2 b2 a3'],
    ['who comes late waits one turn of each other account', 'a1 a2 a3 a4 a5 b1', 'a1 b1 a2 a3 a4 a5'],
  ])('%s', (_, added, taken) => {
    const queue = new FairQueue<Named>(plenty)
    fill(queue, added.split(' '))
    expect(drain(queue)).toBe(taken)
  })

  test('the account with the fewest slots is next, and equals take turns', () => {
    const queue = new FairQueue<Named>(plenty)
    fill(queue, ['a1', 'a2', 'b1', 'b2', 'c1'])
    for (const account of ['a', 'a', 'a', 'b', 'c']) queue.begin(account)
    const next = (): string | undefined => queue.take(() => true)?.name
    expect([next(), next(), next(), next(), next()]).toEqual(['b1', 'c1', 'b2', 'a1', 'a2'])
  })

  test('a returning account goes last', () => {
    const queue = new FairQueue<Named>(plenty)
    fill(queue, ['a1', 'b1', 'b2', 'c1'])
    expect(queue.take(() => true)?.name).toBe('a1')
    fill(queue, ['a2'])
    expect(drain(queue)).toBe('b1 c1 a2 b2')
  })

  test('a retried call goes before the others of its account', () => {
    const queue = new FairQueue<Named>(plenty)
    fill(queue, ['a1', 'a2', 'b1'])
    queue.add(waiterOf('a0'), true)
    expect(drain(queue)).toBe('a0 b1 a1 a2')
  })

  test('a call that fits nowhere lets the others pass and keeps its turn', () => {
    const queue = new FairQueue<Named>(plenty)
    fill(queue, ['a1', 'a2', 'b1'])
    expect(queue.take(({ name }) => name !== 'a1')?.name).toBe('a2')
    expect(queue.take(({ name }) => name !== 'a1')?.name).toBe('b1')
    expect(queue.take(({ name }) => name !== 'a1')).toBeUndefined()
    expect(drain(queue)).toBe('a1')
  })
})

test('the number ahead is the order in which calls are taken', () => {
  const names = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 30 })
  fc.assert(
    fc.property(names, fc.nat(10), (accounts, taken) => {
      const queue = new FairQueue<Named>(plenty)
      const waiters = fill(
        queue,
        accounts.map((who, n) => `${who}${n}`),
      )
      for (let n = 0; n < taken; n++) queue.take(() => true)
      const ahead = new Map([...waiters.values()].map((one) => [one.name, queue.ahead(one)]))
      const order = drain(queue).split(' ').filter(Boolean)
      expect(order.map((name) => ahead.get(name))).toEqual(order.map((_, n) => n))
    }),
  )
})

describe('limits', () => {
  test('apply to the queue and to each account', () => {
    const queue = new FairQueue<Named>({ calls: 4, callsPerAccount: 2, waitMs: 1_000, unreadMs: 1_000 })
    const added = ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].map((name) => queue.add(waiterOf(name), false))
    expect(added).toEqual([true, true, false, true, true, false])
    expect(queue.size).toBe(4)
    expect(drain(queue)).toBe('a1 b1 a2 b2')
  })

  test('do not apply to a retried call', () => {
    const queue = new FairQueue<Named>({ calls: 1, callsPerAccount: 1, waitMs: 1_000, unreadMs: 1_000 })
    fill(queue, ['a1'])
    expect(queue.add(waiterOf('a0'), true)).toBe(true)
  })

  test('remove a call that waited too long, wherever it is', () => {
    const queue = new FairQueue<Named>(plenty)
    for (const [name, at] of [
      ['a1', 500],
      ['b1', 100],
      ['a2', 900],
    ] as const) {
      queue.add(waiterOf(name, at), false)
    }
    queue.add(waiterOf('a0', 950), true)
    expect(queue.expire(1_099)).toEqual([])
    expect(queue.expire(1_500).map(({ name }) => name)).toEqual(['a1', 'b1'])
    expect(drain(queue)).toBe('a0 a2')
  })
})

test('after any adds, takes and removals, no call is lost, doubled or out of turn', () => {
  const step = fc.oneof(
    fc.record({ act: fc.constant('add' as const), who: fc.constantFrom('a', 'b', 'c') }),
    fc.record({ act: fc.constant('take' as const) }),
    fc.record({ act: fc.constant('leave' as const), which: fc.nat() }),
  )
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const queue = new FairQueue<Named>(plenty)
      // A simple model of the queue: a list of accounts in turn order, each with a list of calls.
      let model: Array<{ who: string; names: string[] }> = []
      const waiters = new Map<string, Named>()
      const [taken, due]: Array<Array<string | undefined>> = [[], []]
      let count = 0
      for (const one of steps) {
        if (one.act === 'add') {
          const name = `${one.who}${(count += 1)}`
          const waiter = waiterOf(name)
          waiters.set(name, waiter)
          queue.add(waiter, false)
          const line = model.find(({ who }) => who === one.who)
          if (line === undefined) model.push({ who: one.who, names: [name] })
          else line.names.push(name)
        } else if (one.act === 'take') {
          const [line, ...rest] = model
          const name = line?.names.shift()
          if (line !== undefined) model = [...rest, line]
          due?.push(name)
          taken?.push(queue.take(() => true)?.name)
        } else {
          const names = model.flatMap((line) => line.names)
          const name = names[one.which % Math.max(1, names.length)]
          if (name === undefined) continue
          for (const line of model) line.names = line.names.filter((other) => other !== name)
          const waiter = waiters.get(name)
          if (waiter !== undefined) queue.remove(waiter)
        }
        model = model.filter(({ names }) => names.length > 0)
        expect(queue.size).toBe(model.flatMap(({ names }) => names).length)
      }
      expect(taken).toEqual(due)
    }),
  )
})
