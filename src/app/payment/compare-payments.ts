/** The daily comparison with the processor: reads its ledger, books its fees, and shows what differs from the rows here. */
import { addMs, DAY_MS, earlier, HOUR_MS, MINUTE_MS, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { formatUsd, nanoUsdOf } from '../../base/money.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import type { Processor, ProcessorTransaction } from '../../domain/processor.ts'
import {
  readComparison,
  readFirstPayment,
  saveComparison,
  saveTransactions,
  type PaymentComparison,
  type PaymentDifference,
} from '../../store/payment/payment-comparison.ts'
import { raiseAlert } from '../../store/payment/processor-event.ts'
import { transact } from '../../store/platform/database.ts'
import { endTurn, readDoneAt, takeTurn } from '../../store/platform/lease.ts'
import type { App } from '../app.ts'

export interface ComparedPayments {
  readonly comparison: PaymentComparison
  readonly differences: readonly PaymentDifference[]
}

const TURN = 'payment-transactions'
/** Longer than reading a year takes. If not, another server reads the same again, which changes nothing. */
const TURN_MS = 30 * MINUTE_MS
const WEEK_MS = 7 * DAY_MS
const PAGE = 100
/** The processor's list is complete a little later, and clocks differ. */
const OVERLAP_MS = DAY_MS
/** Later changes are left for the next comparison: messages about them may be under way. */
const SETTLED_MS = HOUR_MS

export async function comparePayments(app: App): Promise<Result<ComparedPayments>> {
  const { processor, database } = app
  if (processor === undefined) return fail('payments_off')
  const now = app.clock.now()
  if (!(await readTransactions(app, processor, now))) return fail('comparison_running')
  const { isLive } = processor
  await transact(database, async (tx) => {
    const until = addMs(now, -SETTLED_MS)
    const comparison = await saveComparison(tx, { isLive, until, limit: limits.paymentDifferences })
    if (comparison.differences === 0) return
    const difference = nanoUsdOf(comparison.processor_nano - comparison.recorded_nano)
    await raiseAlert(tx, {
      kind: 'difference',
      subject: comparison.day,
      accountId: null,
      detail: `${comparison.differences} differences with the payment processor, ${formatUsd(difference)} USD in all. Run berth operator payments reconcile`,
    })
  })
  const compared = await readComparison(database.db, isLive)
  return compared === undefined ? fail('comparison_running') : ok(compared)
}

/** Reads week by week, so that a run that is cut off goes on where it was. False: another one is reading. */
async function readTransactions(app: App, processor: Processor, now: Instant): Promise<boolean> {
  const { db } = app.database
  const turn = await takeTurn(db, TURN, { now, leaseMs: TURN_MS })
  if (turn === undefined) return false
  let doneAt = await readDoneAt(db, TURN)
  try {
    const first = doneAt ?? (await readFirstPayment(db, processor.isLive)) ?? now
    for (let from = addMs(first, -OVERLAP_MS); from <= now; from = addMs(from, WEEK_MS)) {
      const until = addMs(from, WEEK_MS)
      await readWeek(app, processor, from, until)
      doneAt = earlier(until, now)
    }
  } finally {
    await endTurn(db, TURN, turn, doneAt ?? undefined)
  }
  return true
}

async function readWeek(app: App, processor: Processor, from: Instant, until: Instant): Promise<void> {
  let page: ProcessorTransaction[] = []
  const save = () => transact(app.database, (tx) => saveTransactions(tx, processor.isLive, page))
  for await (const transaction of processor.listTransactions(from, until)) {
    page.push(transaction)
    if (page.length < PAGE) continue
    await save()
    page = []
  }
  await save()
}
