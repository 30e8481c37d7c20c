import { expect, test } from 'vitest'
import { addMs, DAY_MS, instantOf } from '../base/instant.ts'
import { dueTermWarning } from './term-warning.ts'

const now = instantOf(Date.UTC(2026, 10, 14))
const inDays = (days: number) => addMs(now, days * DAY_MS)

test.each([
  ['eight days before', 8, null, undefined],
  ['seven days before', 7, null, 7],
  ['six days before, told at seven', 6, 7, undefined],
  ['two days before, told at seven', 2, 7, 2],
  ['one day before, told at two', 1, 2, 1],
  ['hours before, told at one', 0.2, 1, undefined],
  ['hours before, never told', 0.2, null, 1],
  ['after the end', -1, null, undefined],
])('%s', (_, days, warned, due) => {
  expect(dueTermWarning(inDays(days), warned, now)).toBe(due)
})
