import { describe, expect, test } from 'vitest'
import { ok, type Result } from '../contract/result.ts'
import { WorkQueue } from './engine-queue.ts'

const never = new AbortController().signal

/** Work that the test ends. */
function heldWork(): { readonly work: () => Promise<Result<string>>; readonly end: () => void; begun: () => boolean } {
  let begun = false
  let end: ((result: Result<string>) => void) | undefined
  const result = new Promise<Result<string>>((resolve) => (end = resolve))
  return {
    work: () => {
      begun = true
      return result
    },
    end: () => end?.(ok('done')),
    begun: () => begun,
  }
}

/** Lets pending callbacks run. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

function readMetrics(queue: WorkQueue): Record<string, number> {
  const lines = queue.metricsText().matchAll(/^berth_engine_requests_(\w+) (\d+)$/gm)
  return Object.fromEntries([...lines].map(([, name = '', value]) => [name, Number(value)]))
}

describe('a queue', () => {
  const lanes = { quick: { places: 1, msPerUnit: 1 }, slow: { places: 1, msPerUnit: 500 } }

  test('processes requests in order, as many at once as there are places', async () => {
    const queue = new WorkQueue(2, lanes)
    const [first, second, third] = [heldWork(), heldWork(), heldWork()]
    const all = [first, second, third].map(({ work }) => queue.run('quick', 1, never, work))
    expect([first, second, third].map((one) => one.begun())).toEqual([true, false, false])
    expect(readMetrics(queue)).toEqual({ processing: 1, deferred: 2, total: 3 })
    first.end()
    await all[0]
    await settle()
    expect([second, third].map((one) => one.begun())).toEqual([true, false])
    second.end()
    third.end()
    expect(await Promise.all(all)).toEqual([ok('done'), ok('done'), ok('done')])
    expect(readMetrics(queue)).toEqual({ processing: 0, deferred: 0, total: 3 })
  })

  test('processes one lane while another is full', async () => {
    const queue = new WorkQueue(1, lanes)
    const [slow, slowToo, quick] = [heldWork(), heldWork(), heldWork()]
    const waiting = [queue.run('slow', 1, never, slow.work), queue.run('slow', 1, never, slowToo.work)]
    const done = queue.run('quick', 1, never, quick.work)
    expect(quick.begun()).toBe(true)
    quick.end()
    await done
    expect(slowToo.begun()).toBe(false)
    slow.end()
    slowToo.end()
    await Promise.all(waiting)
  })

  test('rejects requests when it is full, with a retry time', async () => {
    const queue = new WorkQueue(1, lanes)
    const [first, second] = [heldWork(), heldWork()]
    const accepted = [queue.run('slow', 100, never, first.work), queue.run('slow', 20, never, second.work)]
    const refused = await queue.run('slow', 1, never, heldWork().work)
    expect(refused).toMatchObject({ ok: false, kind: 'unavailable', reason: 'queue_full' })
    const { message, retryAfterMs } = refused as { message: string; retryAfterMs: number }
    // 120 units at half a second each, plus the time elapsed.
    expect(retryAfterMs).toBeGreaterThanOrEqual(60_000)
    expect(retryAfterMs).toBeLessThan(120_000)
    expect(message).toContain(`${Math.ceil(retryAfterMs / 1_000)} s`)
    expect(readMetrics(queue)).toEqual({ processing: 1, deferred: 1, total: 2 })
    first.end()
    second.end()
    await Promise.all(accepted)
  })

  test('removes an aborted request from the queue', async () => {
    const queue = new WorkQueue(1, lanes)
    const [first, second] = [heldWork(), heldWork()]
    const disconnect = new AbortController()
    const firstRun = queue.run('quick', 1, never, first.work)
    const secondRun = queue.run('quick', 1, disconnect.signal, second.work)
    disconnect.abort(new Error('gone'))
    await expect(secondRun).rejects.toThrow('gone')
    expect(readMetrics(queue)).toMatchObject({ processing: 1, deferred: 0 })
    first.end()
    await firstRun
    expect(second.begun()).toBe(false)
    expect(readMetrics(queue)).toMatchObject({ processing: 0, deferred: 0 })
  })

  test('reports changes in the number of requests ahead', async () => {
    const queue = new WorkQueue(4, lanes)
    const works = [heldWork(), heldWork(), heldWork(), heldWork()]
    const reported: number[][] = [[], [], [], []]
    const disconnect = new AbortController()
    const all = works.map(({ work }, i) =>
      queue.run('quick', 1, i === 1 ? disconnect.signal : never, work, (ahead) => reported[i]?.push(ahead)),
    )
    // Requests of another lane do not count.
    const other = [heldWork(), heldWork()]
    const others = other.map(({ work }) => queue.run('slow', 1, never, work))
    expect(reported).toEqual([[], [1], [2], [3]])
    disconnect.abort(new Error('gone'))
    await expect(all[1]).rejects.toThrow('gone')
    expect(reported).toEqual([[], [1], [2, 1], [3, 2]])
    works[0]?.end()
    await all[0]
    expect(reported).toEqual([[], [1], [2, 1], [3, 2, 1]])
    for (const one of [...works, ...other]) one.end()
    await Promise.all([all[2], all[3], ...others])
    expect(reported).toEqual([[], [1], [2, 1], [3, 2, 1]])
  })

  test('frees the place of failed work', async () => {
    const queue = new WorkQueue(1, lanes)
    await expect(queue.run('quick', 1, never, () => Promise.reject(new Error('broken')))).rejects.toThrow('broken')
    expect(await queue.run('quick', 1, never, () => Promise.resolve(ok('fine')))).toEqual(ok('fine'))
  })
})
