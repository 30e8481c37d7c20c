import { expect, test } from 'vitest'
import { actionWords, auditDetails, auditSummary } from './audit.ts'

const money = (usd: string): string => `$${usd}`

test('a deed is said in words, and one that is not known by its own name', () => {
  expect([actionWords('host.join'), actionWords('old_noun.verb')]).toEqual(['A machine joined', 'old noun verb'])
})

test.each([
  [{ amountUsd: '-3.000000000', rentalId: 7 }, '$-3.000000000 for rental 7'],
  [{ amountUsd: '3.000000000' }, '$3.000000000'],
  [{ gpus: [{}, {}], storage: [], reserveOptions: [] }, '2 prices'],
  [{ gpus: [{}], storage: [], reserveOptions: [] }, '1 price'],
  [{ changed: { platformFeeBp: 1, quota: {} } }, 'supplier fee, quota'],
  [{ name: 'ada' }, 'ada'],
  [{}, 'host:one'],
])('%j in short is %s', (detail, words) => {
  expect(auditSummary({ detail, subject: 'host:one' }, money)).toBe(words)
})

test('every value has a line, and a row of several is one', () => {
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
    ['gpus 1', 'gpu type h200, price a gpu hour $2.250000000'],
    ['notes', 'a, true'],
  ])
  expect(auditDetails({}, money)).toEqual([])
})
