import { describe, expect, test } from 'vitest'
import { Breaker } from './breaker.ts'

/** The middle of the jitter range, so that pauses are exactly 1 s, 2 s, 4 s, … */
const even = (): number => 0.5

/**
 * Performs the steps of a walk and returns them with the resulting states. Each line is `time event → state`, with the
 * time in ms. `call` and `last` (the last resort) start a call if the breaker allows it; `ok`, `bad` (5xx, broken,
 * timeout), `away` (no connection) and `left` (cancelled) end the last one, and `head` is the start of its answer;
 * `alive` and `dead` are results of a probe, `well` and `ill` of a check. `suspect`: closed, but a check is pending.
 */
function walk(steps: readonly string[]): string[] {
  const breaker = new Breaker(even)
  const trials: boolean[] = []
  const begin = (act: string, isAllowed: boolean): string => {
    if (isAllowed) trials.push(breaker.enter())
    return isAllowed ? act : `${act} refused`
  }
  return steps.map((line) => {
    const [, at = '', act = ''] = /^(\d+) (\w+)/.exec(line) ?? []
    const now = Number(at)
    const isTrial = trials.at(-1) ?? false
    let note: string = act
    if (act === 'call') note = begin(act, breaker.allows(now))
    else if (act === 'last') note = begin(act, breaker.allowsLastResort(now))
    else if (act === 'alive') breaker.revive(now)
    else if (act === 'dead') breaker.trip(now)
    else if (act === 'well' || act === 'ill') breaker.checked(act === 'well', false, now)
    else {
      trials.pop()
      if (isTrial && (act === 'ok' || act === 'head')) breaker.answered()
      if (act === 'ok') breaker.succeeded()
      else if (act === 'head') trials.push(false)
      else if (act === 'left' && isTrial) breaker.released(now)
      else if (act !== 'left') breaker.faulted(isTrial, act === 'away', now)
    }
    const state = breaker.state(now)
    return `${now} ${note} → ${state === 'closed' && breaker.needsCheck(now) ? 'suspect' : state}`
  })
}

const times = (count: number, ...lines: readonly string[]): string =>
  Array.from({ length: count }, () => lines)
    .flat()
    .join('\n')
const suspected = `${times(4, '0 bad → closed')}\n0 bad → suspect`
const opened = `${suspected}\n0 ill → open`

const walks: Record<string, string> = {
  'is suspected after five faults in a row, and not after four and a success': `
    ${times(4, '0 bad → closed')}
    0 ok → closed
    ${suspected}`,
  'is suspected when half of the last twenty failed, in whatever order': `
    ${times(9, '0 bad → closed', '0 ok → closed')}
    0 bad → suspect`,
  'is opened by no number of failed calls, only by a check that fails too': `
    ${suspected}
    ${times(100, '0 call → suspect', '0 bad → suspect')}
    0 well → closed
    ${suspected}
    0 ill → open`,
  'is opened without a check where no connection can be made': `
    ${times(4, '0 away → closed')}
    0 away → open`,
  'is opened by nothing less than five calls without a connection, whatever else fails between them': `
    ${times(4, '0 away → closed')}
    0 bad → suspect
    0 ok → suspect
    ${times(4, '0 away → suspect')}
    0 well → closed`,
  'forgets what lies further back than twenty calls': `
    ${times(9, '0 bad → closed', '0 ok → closed')}
    ${times(20, '0 ok → closed')}
    ${times(4, '0 bad → closed', '0 ok → closed')}`,
  'lets exactly one through when its pause is over, and closes when that one is answered': `
    ${opened}
    0 call refused → open
    999 call refused → open
    1000 call → half_open
    1000 call refused → half_open
    9000 call refused → half_open
    9000 ok → closed
    9000 call → closed
    9000 call → closed`,
  'opens for longer each time that a check fails, up to a most': `
    ${opened}
    1000 call → half_open
    1000 bad → half_open
    1000 ill → open
    2999 call refused → open
    3000 call → half_open
    3000 bad → half_open
    3000 ill → open
    6999 call refused → open
    7000 call → half_open
    7000 bad → half_open
    7000 ill → open
    15000 call → half_open
    15000 bad → half_open
    15000 ill → open
    31000 call → half_open
    31000 bad → half_open
    31000 ill → open
    60999 call refused → open
    61000 call → half_open
    61000 bad → half_open
    61000 ill → open
    90999 call refused → open
    91000 call → half_open
    91000 ok → closed`,
  'begins again with a short pause after a call that ended well': `
    ${opened}
    1000 call → half_open
    1000 bad → half_open
    1000 ill → open
    3000 call → half_open
    3000 ok → closed
    ${opened.replaceAll('0 ', '3000 ')}
    3999 call refused → open
    4000 call → half_open`,
  'does not begin again with a short pause where answers begin and then break': `
    ${opened}
    1000 call → half_open
    1000 head → closed
    ${opened.replaceAll('0 ', '1000 ')}
    2999 call refused → open
    3000 call → half_open`,
  'gives the place of a trial back when its client went away': `
    ${opened}
    1000 call → half_open
    1500 left → half_open
    1500 call → half_open
    1500 call refused → half_open
    1600 left → half_open
    1600 call → half_open
    1700 ok → closed`,
  'lets one at a time through as a last resort, some times a second': `
    ${opened}
    10 last → open
    10 last refused → open
    20 bad → open
    100 last refused → open
    270 last → open
    280 ok → closed`,
  'is opened by dead probes, and tried at once when it is alive again': `
    0 dead → open
    500 call refused → open
    500 alive → half_open
    500 call → half_open
    500 ok → closed`,
  'is tried at once when it could not be reached and is alive again': `
    ${times(4, '0 away → closed')}
    0 away → open
    300 alive → half_open`,
  'stays open to trials that fail until a check has said more, however many there are': `
    ${opened}
    ${times(3, '1000 call → half_open', '1000 bad → half_open')}
    1000 well → closed`,
  'ignores a successful probe while calls fail': `
    ${opened}
    300 alive → open
    300 call refused → open`,
}

describe('a breaker', () => {
  test.each(Object.entries(walks))('%s', (_, text) => {
    const steps = text.trim().split(/\n\s*/)
    expect(walk(steps)).toEqual(steps)
  })

  test('ignores calls from before it opened', () => {
    const breaker = new Breaker(even)
    for (let n = 0; n < 5; n += 1) breaker.faulted(false, true, 0)
    breaker.succeeded()
    expect(breaker.state(0)).toBe('open')
    breaker.faulted(false, true, 900)
    expect(breaker.state(1_000)).toBe('half_open')
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
