import { describe, expect, test } from 'vitest'
import { Breaker } from './breaker.ts'

/** In the middle of its range, so that pauses are exactly 1 s, 2 s, 4 s, … */
const even = (): number => 0.5

/**
 * A walk: each step is `at what → state`, with the time in ms. `call` begins a call and notes whether it was let
 * through; `ok`, `bad` (5xx or broken), `away` (no connection, time-out) and `left` (cancelled) end the last one.
 */
function walk(steps: string): string[] {
  const breaker = new Breaker(even)
  const trials: boolean[] = []
  return steps
    .trim()
    .split('\n')
    .map((line) => {
      const [, at = '', act = ''] = /^\s*(\d+) (\w+)/.exec(line) ?? []
      const now = Number(at)
      const isTrial = trials.at(-1) ?? false
      let note: string = act
      if (act === 'call') {
        const isAllowed = breaker.allows(now)
        if (isAllowed) trials.push(breaker.enter())
        note = isAllowed ? 'call' : 'call refused'
      } else if (act === 'last') {
        const isAllowed = breaker.allowsLastResort(now)
        if (isAllowed) trials.push(breaker.enter())
        note = isAllowed ? 'last' : 'last refused'
      } else if (act === 'ok') {
        if (isTrial) breaker.answered()
        breaker.succeeded()
        trials.pop()
      } else if (act === 'head') {
        if (isTrial) breaker.answered()
        trials.pop()
        trials.push(false)
      } else if (act === 'bad' || act === 'away') {
        breaker.faulted(isTrial, act === 'away', now)
        trials.pop()
      } else if (act === 'left') {
        if (isTrial) breaker.released(now)
        trials.pop()
      } else if (act === 'alive') breaker.revive(now)
      else if (act === 'dead') breaker.trip(now)
      else throw new Error(`no such step: ${line}`)
      return `${now} ${note} → ${breaker.state(now)}`
    })
}

const check = (steps: string): void =>
  expect(walk(steps)).toEqual(
    steps
      .trim()
      .split('\n')
      .map((line) => line.trim()),
  )

/** Five faults in a row, at 0. */
const opened = ['0 bad → closed', '0 bad → closed', '0 bad → closed', '0 bad → closed', '0 bad → open'].join('\n')

describe('a breaker', () => {
  test('opens after five faults in a row, and not after four and a success', () => {
    check(`
      0 bad → closed
      0 bad → closed
      0 bad → closed
      0 bad → closed
      0 ok → closed
      0 bad → closed
      0 bad → closed
      0 bad → closed
      0 bad → closed
      0 bad → open`)
  })

  test('opens when half of the last twenty failed, in whatever order', () => {
    const steps = Array.from({ length: 9 }, () => '0 bad → closed\n0 ok → closed').join('\n')
    check(`${steps}\n0 bad → open`)
  })

  test('forgets what lies further back than twenty calls', () => {
    const faults = Array.from({ length: 9 }, () => '0 bad → closed\n0 ok → closed').join('\n')
    const calm = Array.from({ length: 20 }, () => '0 ok → closed').join('\n')
    check(`${faults}\n${calm}\n0 bad → closed\n0 ok → closed\n0 bad → closed`)
  })

  test('lets exactly one through when its pause is over, and closes when that one is answered', () => {
    check(`${opened}
      0 call refused → open
      999 call refused → open
      1000 call → half_open
      1000 call refused → half_open
      9000 call refused → half_open
      9000 ok → closed
      9000 call → closed
      9000 call → closed`)
  })

  test('opens for longer each time that the one fails, up to a most', () => {
    check(`${opened}
      1000 call → half_open
      1000 bad → open
      2999 call refused → open
      3000 call → half_open
      3000 bad → open
      6999 call refused → open
      7000 call → half_open
      7000 bad → open
      15000 call → half_open
      15000 bad → open
      31000 call → half_open
      31000 bad → open
      60999 call refused → open
      61000 call → half_open
      61000 bad → open
      90999 call refused → open
      91000 call → half_open
      91000 ok → closed`)
  })

  test('begins again with a short pause after a call that ended well', () => {
    check(`${opened}
      1000 call → half_open
      1000 bad → open
      3000 call → half_open
      3000 ok → closed
${opened.replaceAll('0 bad', '3000 bad')}
      3999 call refused → open
      4000 call → half_open`)
  })

  test('does not begin again with a short pause where answers begin and then break', () => {
    check(`${opened}
      1000 call → half_open
      1000 head → closed
      1000 bad → closed
      1000 bad → closed
      1000 bad → closed
      1000 bad → closed
      1000 bad → open
      2999 call refused → open
      3000 call → half_open`)
  })

  test('gives the place of a trial back when its client went away', () => {
    check(`${opened}
      1000 call → half_open
      1500 left → half_open
      1500 call → half_open
      1500 call refused → half_open
      1600 left → half_open
      1600 call → half_open
      1700 ok → closed`)
  })

  test('is not moved by calls from before it opened', () => {
    const breaker = new Breaker(even)
    for (let n = 0; n < 5; n += 1) breaker.faulted(false, false, 0)
    breaker.succeeded()
    expect(breaker.state(0)).toBe('open')
    breaker.faulted(false, false, 900)
    expect(breaker.state(1_000)).toBe('half_open')
  })

  test('lets one at a time through as a last resort, some times a second', () => {
    check(`${opened}
      10 last → open
      10 last refused → open
      20 bad → open
      100 last refused → open
      270 last → open
      280 ok → closed`)
  })

  test('is opened by dead probes, and tried at once when it is alive again', () => {
    check(`
      0 dead → open
      500 call refused → open
      500 alive → half_open
      500 call → half_open
      500 ok → closed`)
    check(`
      0 away → closed
      0 away → closed
      0 away → closed
      0 away → closed
      0 away → open
      300 alive → half_open`)
  })

  test('does not believe a probe about an engine that answers calls with errors', () => {
    check(`${opened}
      300 alive → open
      300 call refused → open`)
  })

  test('spreads its pauses', () => {
    const ends = [0, 0.999].map((random) => {
      const breaker = new Breaker(() => random)
      breaker.trip(0)
      return breaker.waitMs(0)
    })
    expect(ends[0]).toBe(750)
    expect(ends[1]).toBeCloseTo(1_250, -1)
  })
})
