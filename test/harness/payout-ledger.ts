/** Payouts of every outcome in a test ledger, written by the functions that production uses. */
import { MINUTE_MS, toDate } from '../../src/base/instant.ts'
import { usd } from '../../src/base/money.ts'
import {
  approveRun,
  insertPayouts,
  insertRun,
  lockPayout,
  markPaid,
  saveExport,
} from '../../src/store/payment/payout.ts'
import { lockPayoutAccount, saveBankDetails } from '../../src/store/payment/payout-account.ts'
import { returnPayout, takePayout } from '../../src/store/payment/payout-posting.ts'
import { transact } from '../../src/store/platform/database.ts'
import { post } from '../../src/store/ledger/ledger.ts'
import type { Journey } from './journey.ts'
import type { TestLedger } from './ledger.ts'

/** The supplier is paid by bank twice: the first payout is paid, the second comes back. */
export async function recordPayouts(ledger: TestLedger, accountId: string): Promise<void> {
  const { clock, database } = ledger
  clock.advance(MINUTE_MS)
  await transact(database, (tx) =>
    saveBankDetails(tx, { accountId, changedBy: 'test' }, { detailsSealed: 'sealed', hint: '…3000' }),
  )
  for (const [runId, id, amount] of [
    ['prun_one', 'po_bank', usd('1.23')],
    ['prun_two', 'po_back', usd('2')],
  ] as const) {
    await transact(database, async (tx) => {
      await insertRun(tx, { id: runId, until: clock.now(), createdBy: null })
      await insertPayouts(tx, [{ id, runId, accountId, kind: 'bank', isLive: null, amount, hint: '…3000' }])
      const payout = await lockPayout(tx, id)
      const to = await lockPayoutAccount(tx, accountId)
      if (payout === undefined || to === undefined || !(await takePayout(tx, payout, to, 'test')))
        throw new Error('the supplier has earned too little')
      await approveRun(tx, runId, 'test')
      const lines = [{ id, cents: Number(amount / usd('0.01')) }]
      await saveExport(tx, { runId, by: 'test', format: 'csv', currency: 'USD', rate: null, lines })
      await markPaid(tx, [id])
      const paid = await lockPayout(tx, id)
      if (id === 'po_back' && paid !== undefined)
        await returnPayout(tx, paid, { id: `${id}:failed`, amount, failure: 'account closed' })
      await tx.db
        .updateTable('payout_run')
        .set({ state: 'paid', ended_at: toDate(clock.now()) })
        .execute()
    })
  }
}

/** An approved run that waits for its bank file, and a draft whose supplier has earned less by now. */
export async function makePayoutRuns({ app }: Pick<Journey, 'app'>, accountId: string) {
  const runs = { payoutRun: 'prun_example', payoutDraft: 'prun_draft' }
  const bank = { holder: 'North Racks Ltd', iban: 'DE89370400440532013000', bic: null }
  const payout = { accountId, kind: 'bank', isLive: null, hint: '…3000' } as const
  await transact(app.database, async (tx) => {
    const earned = { from: { accountId: null, kind: 'adjustments' }, to: { accountId, kind: 'earnings' } } as const
    const posting = { key: 'example-earnings', kind: 'adjustment', accountId, memo: 'Earned', actor: null } as const
    await post(tx, { ...posting, reason: null, transfers: [{ ...earned, amount: usd('50') }] })
    const detailsSealed = app.vault.seal(JSON.stringify(bank))
    await saveBankDetails(tx, { accountId, changedBy: 'test' }, { detailsSealed, hint: '…3000' })
    const until = app.clock.now()
    await insertRun(tx, { id: runs.payoutRun, until, createdBy: null })
    await insertPayouts(tx, [{ ...payout, id: 'po_example', runId: runs.payoutRun, amount: usd('50') }])
    const [row, to] = [await lockPayout(tx, 'po_example'), await lockPayoutAccount(tx, accountId)]
    if (row === undefined || to === undefined || !(await takePayout(tx, row, to, 'test')))
      throw new Error('the example could not be paid')
    await approveRun(tx, runs.payoutRun, 'test')
    await insertRun(tx, { id: runs.payoutDraft, until, createdBy: null })
    await insertPayouts(tx, [{ ...payout, id: 'po_draft', runId: runs.payoutDraft, amount: usd('60') }])
  })
  return runs
}

/** Check | fault | subject it must name | SQL that plants it; see ledger-verify.test.ts. */
export const payoutPlants = `
    payouts_are_their_postings | another amount         | payout po_bank           | update payout set amount_nano = amount_nano + 10000000 where id = 'po_bank'
    payouts_are_their_postings | never taken            | payout po_bank           | delete from posting where key = 'payout:po_bank'
    payouts_are_their_postings | of nobody              | payout:po_bank           | update payout set state = 'canceled' where id = 'po_bank'
    payout_returns_are_their_postings | never came back | payout return po_back:failed | delete from posting where key = 'payout-return:po_back:failed'
    payout_returns_are_their_postings | of nobody       | payout-return:po_back:failed | delete from payout_return
    payout_returns_are_their_postings | more than that  | payout po_bank           | update payout set returned_nano = 1 where id = 'po_bank'
    payouts_are_past_their_holdback | earned too late   | payout po_bank           | update payout_run set until = '2025-01-01' where id = 'prun_one'
    bank_files_add_up          | another sum            | payout run prun_one      | update payout_run set exported_cents = exported_cents + 1 where id = 'prun_one'
    bank_files_add_up          | another line           | payout po_bank           | update payout set exported_cents = exported_cents + 1 where id = 'po_bank'`
