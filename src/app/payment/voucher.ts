/**
 * Vouchers. A code has 80 random bits and is stored as a hash. A try is counted before its code is looked up, in a
 * transaction of its own, so that many at once are not more than the limit; a right one is forgotten again.
 */
import { randomBytes } from 'node:crypto'
import { randomId, sha256 } from '../../base/id.ts'
import { addMs, DAY_MS, HOUR_MS, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { formatUsd, type NanoUsd } from '../../base/money.ts'
import { clientNetworkOf } from '../../base/net/client-network.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { lockAccount } from '../../store/account/account.ts'
import { lockAndCount } from '../../store/account/client-network.ts'
import { isInDebt } from '../../store/ledger/standing.ts'
import { insertGrant, listGrants, type GrantWithRest } from '../../store/payment/credit-grant.ts'
import * as store from '../../store/payment/voucher.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { announceMoney } from './announce-money.ts'

export interface VoucherOrder {
  readonly amount: NanoUsd
  readonly uses: number
  readonly usesPerAccount: number
  readonly redeemableUntil: Instant | undefined
  readonly creditDays: number | undefined
  readonly note: string
}

/** The code is shown once. */
export async function createVoucher(
  tx: Tx,
  actor: Actor,
  order: VoucherOrder,
): Promise<Result<{ readonly voucher: store.Voucher; readonly code: string }>> {
  const { amount, uses, usesPerAccount, redeemableUntil = null, creditDays = null, note } = order
  if (usesPerAccount > uses) return failField(['usesPerAccount'], 'uses_per_account_range')
  const code = makeVoucherCode()
  const voucher = await store.insertVoucher(tx, {
    id: randomId('vch'),
    codeHash: hashCode(code),
    codeEnd: code.slice(-4),
    amount,
    uses,
    usesPerAccount,
    redeemableUntil,
    creditDays,
    note,
    createdBy: actor.keyId,
  })
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'voucher.create',
    subject: voucher.id,
    detail: { amountUsd: formatUsd(amount), uses, usesPerAccount, creditDays, note },
  })
  return ok({ voucher, code })
}

/** Revoking again changes nothing. */
export async function revokeVoucher(tx: Tx, actor: Actor, id: string): Promise<Result<true>> {
  if ((await store.findVoucher(tx.db, id)) === undefined) return fail('voucher_not_found')
  if (await store.revokeVoucher(tx, id))
    await writeAudit(tx, { actor: actor.keyId, action: 'voucher.revoke', subject: id })
  return ok(true)
}

/** Counts a try of the account and of its network. Returns its id. */
export async function countTry(app: App, actor: Actor, address: string | undefined): Promise<Result<bigint>> {
  return transact(app.database, async (tx): Promise<Result<bigint>> => {
    const network = clientNetworkOf(address ?? '')
    const since = addMs(tx.clock.now(), -HOUR_MS)
    await lockAccount(tx, actor.accountId)
    const byAccount = await store.countTries(tx, actor.accountId, since)
    const byNetwork = await lockAndCount(tx, 'voucher_try', network, since)
    if (byAccount >= limits.voucherTriesPerHour || byNetwork >= limits.voucherTriesPerHourAndNetwork)
      return fail('too_many_voucher_tries')
    return ok(await store.insertTry(tx, actor.accountId, network))
  })
}

export async function forgetTry(app: App, id: bigint): Promise<void> {
  await transact(app.database, (tx) => store.deleteTry(tx, id))
}

export async function redeemVoucher(tx: Tx, actor: Actor, code: string): Promise<Result<GrantWithRest>> {
  const { accountId, personId } = actor
  const voucher = await store.lockVoucher(tx, hashCode(code))
  if (voucher === undefined) return fail('voucher_not_found')
  const now = tx.clock.now()
  if (voucher.revoked_at !== null || (voucher.redeemable_until !== null && voucher.redeemable_until <= now))
    return fail('voucher_ended')
  const uses = await store.countUses(tx.db, voucher.id, accountId)
  if (uses >= voucher.uses_per_account) return fail('voucher_redeemed')
  if (voucher.used >= voucher.uses) return fail('voucher_used_up')
  // The debt would be repaid with it.
  if (await isInDebt(tx.db, accountId)) return fail('account_in_debt')
  const id = randomId('grant')
  const expiresAt = voucher.credit_days === null ? null : addMs(now, voucher.credit_days * DAY_MS)
  const grant = { id, accountId, kind: 'voucher', amount: voucher.amount_nano, cardFingerprint: null } as const
  const posting = { memo: `Voucher …${voucher.code_end}`, actor: actor.keyId, reason: null }
  if (!(await insertGrant(tx, { ...grant, personId, expiresAt }, posting)))
    throw new Error(`the grant of voucher ${voucher.id} was not written`)
  await store.insertUse(tx, { voucherId: voucher.id, accountId, n: uses + 1, grantId: id })
  await announceMoney(tx, accountId, formatUsd(voucher.amount_nano), 'credit')
  const [credited] = await listGrants(tx.db, accountId, 1, id)
  if (credited === undefined) throw new Error(`there is no grant ${id}`)
  return ok(credited)
}

/** Crockford's base 32: nothing in it looks like something else. */
const alphabet = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const CODE_CHARS = 16
const GROUP_CHARS = 4

function makeVoucherCode(): string {
  const chars = Array.from(randomBytes(CODE_CHARS), (byte) => alphabet.charAt(byte % alphabet.length))
  return Array.from({ length: CODE_CHARS / GROUP_CHARS }, (_, n) =>
    chars.slice(n * GROUP_CHARS, (n + 1) * GROUP_CHARS).join(''),
  ).join('-')
}

/** Case, spaces and hyphens do not matter, nor do letters that look like digits: people type codes by hand. */
function hashCode(code: string): Buffer {
  const read = code.toUpperCase().replaceAll(/[\s-]/g, '').replaceAll('O', '0').replaceAll(/[IL]/g, '1')
  return sha256(`voucher ${read}`)
}
