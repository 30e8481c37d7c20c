/** Money lent to workers: all of it can be spent by anyone, none of it twice, and a killed worker loses none. */
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { inferenceRecord } from '../../../test/harness/ended-request.ts'
import { addMs, MINUTE_MS } from '../../base/instant.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import type { PurseOwner, Treasury } from '../../domain/purse.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { PurseLoans, type Borrower } from './purse-loans.ts'
import type { OpenReservation, Purse } from './purse.ts'
import { Purses, type PurseTreasury } from './purses.ts'
import { recordsOf, settleRecords } from '../../domain/settlement.ts'

const owner: PurseOwner = { accountId: 'acc', apiKeyId: null }
const HOLD = 'hold'

interface Worker {
  purses: Purses
  borrower: Borrower
  readonly open: OpenReservation[]
  /** Finished and in its journal. */
  finished: Array<{ record: InferenceRecord; purse: Purse; cost: NanoUsd }>
}

/** An account with money, a gateway and two workers. */
function makeHouse(balance: NanoUsd) {
  const clock = manualClock()
  const ledger = { available: balance, held: zeroUsd, spent: zeroUsd, settled: new Set<string>() }
  const treasury: PurseTreasury & Treasury = {
    topUp: async (_, { maximum, minimum }) => {
      const amount = maximum < ledger.available ? maximum : ledger.available
      if (amount < minimum || amount <= 0n) return { kind: 'insufficient', why: 'balance' }
      ledger.available = nanoUsdOf(ledger.available - amount)
      ledger.held = nanoUsdOf(ledger.held + amount)
      return { kind: 'granted', holdKey: HOLD, amount, expiresAt: addMs(clock.now(), 10 * MINUTE_MS) }
    },
    giveBack: async (_, most) => {
      const amount = most < ledger.held ? most : ledger.held
      ledger.available = nanoUsdOf(ledger.available + amount)
      ledger.held = nanoUsdOf(ledger.held - amount)
    },
    renew: async () => addMs(clock.now(), 10 * MINUTE_MS),
    readPurses: async () => new Map([[HOLD, ledger.held]]),
    settle: async (settlement) => {
      for (const { requestId, cost } of recordsOf(settlement)) {
        if (ledger.settled.has(requestId)) continue
        ledger.settled.add(requestId)
        ledger.held = nanoUsdOf(ledger.held - cost)
        ledger.spent = nanoUsdOf(ledger.spent + cost)
      }
    },
  }
  const onError = (error: unknown): never => {
    throw error
  }
  const purses: Purses = new Purses({
    treasury,
    clock,
    onError,
    recall: (one, except) => loans.recall(one, except),
    recallLoans: (id) => loans.recallAccount(id),
  })
  const loans = new PurseLoans({ purses, treasury })
  const hire = (): Worker => {
    const borrower = loans.open(
      async (one) => worker.purses.giveUpFree(one),
      (accountId) => worker.purses.recall(accountId),
    )
    const worker: Worker = {
      borrower,
      purses: new Purses({ treasury: borrower, clock, onError }),
      open: [],
      finished: [],
    }
    return worker
  }
  return { ledger, treasury, purses, loans, hire, clock }
}

const amount = fc.bigInt({ min: 1n, max: 900_000_000n }).map(nanoUsdOf)
const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('reserve' as const), who: fc.nat(1), worst: amount }) },
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('finish' as const), who: fc.nat(1), share: fc.nat(100) }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('settle' as const), who: fc.nat(1) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('kill' as const), who: fc.nat(1) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('recall' as const), who: fc.nat(1) }) },
  ),
  { maxLength: 40 },
)

test('whatever workers spend, settle or lose, the account can spend all it has and pays each request once', async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (taken) => {
      const balance = nanoUsdOf(2_000_000_000n)
      const { ledger, treasury, purses, loans, hire } = makeHouse(balance)
      const workers = [hire(), hire()]
      const wrong: string[] = []
      let requests = 0
      let used = zeroUsd
      const settle = async (worker: Worker): Promise<void> => {
        const batch = worker.finished
        worker.finished = []
        await settleRecords(
          worker.borrower,
          batch.map(({ record }) => record),
        )
        for (const { purse, cost } of batch) if (cost > 0n) purse.settle(cost)
      }
      for (const step of taken) {
        const worker = workers[step.who]
        if (worker === undefined) continue
        if (step.kind === 'reserve') {
          const busy = workers.flatMap(({ open }) => open).reduce((sum, one) => sum + one.amount, 0n)
          const reserved = await worker.purses.reserve(owner, step.worst)
          if (reserved.ok !== step.worst <= balance - used - busy) wrong.push(`${reserved.ok} for ${step.worst}`)
          if (reserved.ok) worker.open.push(reserved.value)
        } else if (step.kind === 'finish') {
          const reservation = worker.open.shift()
          if (reservation === undefined) continue
          const cost = nanoUsdOf((reservation.amount * BigInt(step.share)) / 100n)
          requests += 1
          used = nanoUsdOf(used + cost)
          const purse = worker.purses.end(reservation, cost)
          const record = inferenceRecord({ requestId: `r${requests}`, holdKey: HOLD, cost })
          worker.finished.push({ record, purse, cost })
        } else if (step.kind === 'settle') {
          await settle(worker)
        } else if (step.kind === 'recall') {
          await purses.recall(owner.accountId)
        } else {
          // What it has finished is in its journal; what was running costs nothing.
          const left = worker.finished.map(({ record }) => record)
          await loans.settleLost(() => settleRecords(treasury, left))
          worker.borrower.close()
          workers[step.who] = hire()
          await purses.maintain()
        }
      }
      for (const worker of workers) {
        for (const reservation of worker.open.splice(0)) worker.purses.end(reservation, zeroUsd)
        await settle(worker)
        await worker.purses.giveAllBack()
        worker.borrower.close()
      }
      expect(wrong, 'refused although the account has enough, or the reverse').toEqual([])
      await purses.maintain()
      await purses.giveAllBack()
      expect({ spent: ledger.spent, held: ledger.held, left: ledger.available }).toEqual({
        spent: used,
        held: 0n,
        left: balance - used,
      })
    }),
    { numRuns: 200, endOnFailure: true },
  )
})
