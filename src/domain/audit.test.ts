import { expect, test } from 'vitest'
import { actionLabel, auditDetails, auditSummary } from './audit.ts'

const money = (usd: string): string => `$${usd}`

test('labels an action, and shows an unknown one unchanged', () => {
  expect([actionLabel('host.join'), actionLabel('old_noun.verb')]).toEqual(['Host joined', 'old noun verb'])
})

test.each([
  [{ amountUsd: '-3.000000000', rentalId: 7 }, '$-3.000000000 for rental 7'],
  [{ amountUsd: '3.000000000' }, '$3.000000000'],
  [{ gpus: [{}, {}], storage: [], reserveOptions: [] }, '2 prices'],
  [{ gpus: [{}], storage: [], reserveOptions: [] }, '1 price'],
  [{ changed: { platformFeeBp: 1, quota: {} } }, 'platform fee, quota'],
  [{ name: 'ada' }, 'ada'],
  [{}, 'host:one'],
])('summarizes %j as %s', (detail, text) => {
  expect(auditSummary({ detail, subject: 'host:one' }, money)).toBe(text)
})

test('gives each value a line, and each row of a list one line', () => {
  expect(
    auditDetails(
      {
        changed: { quota: { gpus: 16 }, suspendedAt: null, tags: [] },
        priceUsd: '2.490000000',
        gpus: [{ gpu_type: 'h200', nano_per_gpu_hour: '2250000000' }],
        notes: ['a', true],
      },
      money,
    ),
  ).toEqual([
    ['changed quota gpus', '16'],
    ['changed suspended at', 'none'],
    ['changed tags', 'nothing'],
    ['priceUsd', '$2.490000000'],
    ['gpus 1', 'gpu type h200, price per gpu hour $2.250000000'],
    ['notes', 'a, true'],
  ])
  expect(auditDetails({}, money)).toEqual([])
})
