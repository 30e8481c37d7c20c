/** The most that an account adds in a day, by its stage and quota. */
import { addMs, DAY_MS } from '../../base/instant.ts'
import { nanoUsdOf, usd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { fail, type Failure } from '../../contract/result.ts'
import { quotaOf } from '../../domain/quota.ts'
import type { Account } from '../../store/account/account.ts'
import { sumTopUps } from '../../store/payment/payment.ts'
import type { Tx } from '../../store/platform/database.ts'

/** The caller has locked the account, so that top-ups at once see each other. undefined: there is room for the amount. */
export async function refuseOverDay(
  tx: Tx,
  account: Pick<Account, 'id' | 'quota' | 'stage'>,
  amount: NanoUsd,
): Promise<Failure | undefined> {
  const limit = usd(String(quotaOf(account.quota, account.stage).topUpPerDayUsd))
  const now = tx.clock.now()
  const added = await sumTopUps(tx.db, account.id, addMs(now, -DAY_MS), now)
  if (added + amount <= limit) return undefined
  return fail('top_up_day_limit', { limit, left: added < limit ? nanoUsdOf(limit - added) : zeroUsd })
}
