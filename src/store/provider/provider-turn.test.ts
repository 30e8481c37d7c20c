/** Turns at other clouds, which all servers share. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { addMs, instantOf } from '../../base/instant.ts'
import { openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import { pauseTurns, reserveTurn } from './provider-turn.ts'

const [accountId, route] = ['prv_turns', 'launch']
const now = instantOf(Date.UTC(2026, 0, 1))
let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
  await ledger.database.pool.query(
    `insert into provider_account (id, driver, name, base_url, credentials_sealed, created_at, health_since)
      values ($1, 'lambda', 'turns', 'https://example.com', 'x', now(), now())`,
    [accountId],
  )
})
afterAll(() => ledger.close())

test('requests of several servers at once get turns that are apart (issue 31, 8: S-6)', async () => {
  const { db } = ledger.database
  const turns = await Promise.all(Array.from({ length: 8 }, () => reserveTurn(db, { accountId, route }, 12_000, now)))
  expect(turns.toSorted((a, b) => a - b)).toEqual(turns.map((_, n) => addMs(now, n * 12_000)))
  // Each limit has turns of its own, and a pause holds up what comes after it.
  expect(await reserveTurn(db, { accountId, route: '' }, 1_000, now)).toBe(now)
  await pauseTurns(db, { accountId, route: '' }, addMs(now, 30_000))
  await pauseTurns(db, { accountId, route: '' }, addMs(now, 20_000))
  expect(await reserveTurn(db, { accountId, route: '' }, 1_000, now)).toBe(addMs(now, 30_000))
  // An account that was idle starts at once.
  expect(await reserveTurn(db, { accountId, route }, 12_000, addMs(now, 900_000))).toBe(addMs(now, 900_000))
})
