import { expect, test } from 'vitest'
import { nextTime, parseCron } from './cron.ts'
import { formatInstant, instantOf } from './instant.ts'

const after = (text: string) => instantOf(Date.parse(text))

function timesOf(text: string, from: string, count: number): string[] {
  const cron = parseCron(text)
  if (cron === undefined) throw new Error(`${text} is not valid`)
  const times: string[] = []
  let at = after(from)
  while (times.length < count) {
    const next = nextTime(cron, at)
    if (next === undefined) break
    times.push(formatInstant(next).slice(0, 16))
    at = next
  }
  return times
}

// 1 January 2026 is a Thursday.
test.each([
  ['*/20 * * * *', ['2026-01-01T10:20', '2026-01-01T10:40', '2026-01-01T11:00']],
  ['0 3 * * *', ['2026-01-02T03:00', '2026-01-03T03:00', '2026-01-04T03:00']],
  ['30 9-17/4 * * mon-fri', ['2026-01-01T13:30', '2026-01-01T17:30', '2026-01-02T09:30']],
  ['0 0 * * 7', ['2026-01-04T00:00', '2026-01-11T00:00', '2026-01-18T00:00']],
  ['@monthly', ['2026-02-01T00:00', '2026-03-01T00:00', '2026-04-01T00:00']],
  ['0 12 13 * fri', ['2026-01-02T12:00', '2026-01-09T12:00', '2026-01-13T12:00']],
  ['5,10 10 31 jan,mar *', ['2026-01-31T10:05', '2026-01-31T10:10', '2026-03-31T10:05']],
  ['0 0 29 2 *', ['2028-02-29T00:00', '2032-02-29T00:00', '2036-02-29T00:00']],
])('%s', (text, times) => {
  expect(timesOf(text, '2026-01-01T10:00:00Z', 3)).toEqual(times)
})

test('the time itself is not the next one, and seconds do not matter', () => {
  expect(timesOf('* * * * *', '2026-01-01T10:00:59.999Z', 1)).toEqual(['2026-01-01T10:01'])
  expect(timesOf('0 10 * * *', '2026-01-01T10:00:00Z', 1)).toEqual(['2026-01-02T10:00'])
})

test.each([
  '',
  '* * * *',
  '* * * * * *',
  '60 * * * *',
  '* 24 * * *',
  '* * 0 * *',
  '5-1 * * * *',
  '*/0 * * * *',
  '0 0 30 2 *',
  'x * * * *',
  '*-5 * * * *',
  '@yesterday',
])('"%s" is refused', (text) => {
  expect(parseCron(text)).toBeUndefined()
})
