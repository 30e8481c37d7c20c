import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { addMs, DAY_MS, instantOf, type Instant } from '../base/instant.ts'
import { nanoUsdOf, usd } from '../base/money.ts'
import { budgetStep, isBlocking, marksAfterChange, percentSpent, type Budget, type BudgetMarks } from './budget.ts'

const november = instantOf(Date.UTC(2026, 10, 14))
const december = addMs(november, 30 * DAY_MS)
const unmarked: BudgetMarks = { month: null, alerted: 0, exceededAt: null }
const budget = (change: Partial<Budget> = {}): Budget => ({
  amount: usd('100'),
  alerts: [50, 80, 100],
  action: 'stop',
  marks: unmarked,
  ...change,
})

/** The announcements while the spend follows `spends`, one step each. */
function announced(start: Budget, spends: ReadonlyArray<readonly [string, Instant]>): string[] {
  let current = start
  const alerts: string[] = []
  for (const [spent, now] of spends) {
    const step = budgetStep(current, usd(spent), now)
    if (step === undefined) continue
    current = { ...current, marks: step.marks }
    alerts.push(`${step.kind} ${step.percent}`)
  }
  return alerts
}

describe('alerts', () => {
  test.each([
    ['nothing below the first percentage', ['49.999999999'], []],
    [
      'each percentage once',
      ['50', '60', '80', '99.999999999', '100', '150'],
      ['alert 50', 'alert 80', 'exceeded 100'],
    ],
    ['only the highest of several passed at once', ['85'], ['alert 80']],
    ['only the end, when everything is passed at once', ['170'], ['exceeded 100']],
    ['nothing again after a refund', ['50', '40', '55'], ['alert 50']],
  ])('%s', (_, spends, expected) => {
    expect(
      announced(
        budget(),
        spends.map((spent) => [spent, november] as const),
      ),
    ).toEqual(expected)
  })

  test('start again with the next month', () => {
    const spends = [
      ['120', november],
      ['10', december],
      ['120', december],
    ] as const
    expect(announced(budget(), spends)).toEqual(['exceeded 100', 'exceeded 100'])
  })

  test('can lie above 100%', () => {
    const spends = ['100', '149', '150'].map((spent) => [spent, november] as const)
    expect(announced(budget({ alerts: [150] }), spends)).toEqual(['exceeded 100', 'alert 150'])
  })

  test('are never repeated within a month, however the spend moves', () => {
    const percentages = fc.uniqueArray(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 6 })
    const spends = fc.array(fc.bigInt({ min: 0n, max: 300n * 10n ** 9n }), { maxLength: 30 })
    fc.assert(
      fc.property(percentages, spends, (alerts, amounts) => {
        let current = budget({ alerts: alerts.toSorted((one, other) => one - other) })
        const reported: string[] = []
        for (const amount of amounts) {
          const step = budgetStep(current, nanoUsdOf(amount), november)
          if (step === undefined) continue
          reported.push(`${step.kind} ${step.percent}`)
          current = { ...current, marks: step.marks }
        }
        expect(new Set(reported).size).toBe(reported.length)
        const highest = amounts.reduce((one, other) => (one > other ? one : other), 0n)
        expect(current.marks.exceededAt !== null).toBe(highest >= 100n * 10n ** 9n)
      }),
    )
  })
})

describe('a change of the budget', () => {
  const exceeded: BudgetMarks = { month: '2026-11-01', alerted: 100, exceededAt: november }
  test('that raises it lifts the block and lets later percentages alert again', () => {
    const marks = marksAfterChange(budget({ amount: usd('200'), marks: exceeded }), usd('120'), november)
    expect(marks).toEqual({ month: '2026-11-01', alerted: 50, exceededAt: null })
  })
  test('that lowers it does not forget what was announced', () => {
    const marks = marksAfterChange(
      budget({ amount: usd('60'), marks: { ...exceeded, alerted: 50, exceededAt: null } }),
      usd('55'),
      november,
    )
    expect(marks).toEqual({ month: '2026-11-01', alerted: 50, exceededAt: null })
    expect(budgetStep(budget({ amount: usd('60'), marks }), usd('55'), november)).toMatchObject({
      kind: 'alert',
      percent: 80,
    })
  })
})

test('a budget blocks only in the month in which it was exceeded, and only if the customer chose so', () => {
  const marks: BudgetMarks = { month: '2026-11-01', alerted: 100, exceededAt: november }
  expect([
    isBlocking(budget({ marks }), november),
    isBlocking(budget({ marks }), december),
    isBlocking(budget({ marks, action: 'alert' }), november),
    isBlocking(budget(), november),
  ]).toEqual([true, false, false, false])
})

test('percentages are rounded down, and a month of refunds counts as nothing', () => {
  expect([percentSpent(usd('99.999999999'), usd('100')), percentSpent(usd('-3'), usd('100'))]).toEqual([99, 0])
})
