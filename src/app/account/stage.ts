/** The limits of an account as its members see them, and the end of the stage `new`. */
import { addMs, DAY_MS, type Instant } from '../../base/instant.ts'
import type { Quota, Stage } from '../../base/limits.ts'
import type { NanoUsd } from '../../base/money.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { quotaOf } from '../../domain/quota.ts'
import { findAccount } from '../../store/account/account.ts'
import { advanceStages, findFirstPaidAt, readHourlySpend } from '../../store/account/stage.ts'
import { findBlocked } from '../../store/payment/card-decline.ts'
import { sumTopUps } from '../../store/payment/payment.ts'
import type { Actor, App } from '../app.ts'

/** Most disputes of stolen cards come within days. */
const NEW_AFTER_PAYMENT_MS = 7 * DAY_MS

export interface AccountLimits {
  readonly stage: Stage
  /** null: the account is not new, or has not paid. */
  readonly newUntil: Instant | null
  readonly quota: Quota
  readonly hourlySpend: NanoUsd
  readonly toppedUp: NanoUsd
  readonly isBlocked: boolean
}

export async function readAccountLimits(
  { database: { db }, clock }: App,
  actor: Actor,
): Promise<Result<AccountLimits>> {
  const { accountId } = actor
  const account = await findAccount(db, accountId)
  if (account === undefined) return fail('not_a_member')
  const now = clock.now()
  const dayAgo = addMs(now, -DAY_MS)
  const firstPaidAt = account.stage === 'new' ? await findFirstPaidAt(db, accountId) : undefined
  return ok({
    stage: account.stage,
    newUntil: firstPaidAt === undefined ? null : addMs(firstPaidAt, NEW_AFTER_PAYMENT_MS),
    quota: quotaOf(account.quota, account.stage),
    hourlySpend: await readHourlySpend(db, accountId),
    toppedUp: await sumTopUps(db, accountId, dayAgo, now),
    isBlocked: (await findBlocked(db, { accountId, network: null }, dayAgo)) !== undefined,
  })
}

export async function endNewStages({ database: { db }, clock }: App): Promise<void> {
  await advanceStages(db, addMs(clock.now(), -NEW_AFTER_PAYMENT_MS))
}
