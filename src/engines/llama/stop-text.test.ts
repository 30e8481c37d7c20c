/** Finding stop texts in a text that arrives in pieces. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { StopText } from './stop-text.ts'

function feed(
  stops: readonly string[],
  pieces: readonly string[],
): { text: string; stopped: boolean; steps: string[] } {
  const stop = new StopText(stops)
  const steps: string[] = []
  for (const piece of pieces) {
    const { text, stopped } = stop.push(piece)
    steps.push(text)
    if (stopped) return { text: steps.join(''), stopped, steps }
  }
  steps.push(stop.end())
  return { text: steps.join(''), stopped: false, steps }
}

test('finds a stop text across three pieces and emits no part of it', () => {
  expect(feed(['STOP'], ['abS', 'TO', 'Pcd'])).toEqual({ text: 'ab', stopped: true, steps: ['ab', '', ''] })
})

test('emits text that only resembled a stop text as soon as that is clear', () => {
  expect(feed(['STOP'], ['aST', 'x', 'S'])).toEqual({ text: 'aSTxS', stopped: false, steps: ['a', 'STx', '', 'S'] })
})

test('stops at the earliest of several stop texts', () => {
  expect(feed(['cd', 'bcd'], ['abcde']).text).toBe('a')
})

test('finds a stop text that begins inside a partial match of itself', () => {
  expect(feed(['aab'], ['a', 'a', 'a', 'b'])).toMatchObject({ text: 'a', stopped: true })
})

test('ends any text before its first stop text, however it is split', () => {
  const letters = fc.stringMatching(/^[ab]{0,12}$/)
  const stop = fc.stringMatching(/^[ab]{1,4}$/)
  fc.assert(
    fc.property(fc.array(letters, { maxLength: 8 }), stop, (pieces, one) => {
      const whole = pieces.join('')
      const at = whole.indexOf(one)
      expect(feed([one], pieces)).toMatchObject({ text: at < 0 ? whole : whole.slice(0, at), stopped: at >= 0 })
    }),
  )
})
