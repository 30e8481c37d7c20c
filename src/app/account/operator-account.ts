/** Accounts, as an operator manages them. Each change is audited with actor and reason in the same transaction. */
import { formatInstantOrNull } from '../../base/instant.ts'
import { formatUsd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { scopes, type Scope } from '../../contract/endpoint.ts'
import { withoutRepeats } from '../../domain/api-key.ts'
import { mergeQuota, type QuotaChange } from '../../domain/quota.ts'
import {
  findAccountWithStanding,
  lockAccount,
  updateAccount,
  type AccountChange,
  type AccountWithStanding,
} from '../../store/account/account.ts'
import { notifyAccountKeys } from '../../store/account/api-key.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import { readBalances } from '../../store/ledger/ledger.ts'
import { readCreditLine, saveCreditLine } from '../../store/ledger/standing.ts'
import { listFleet } from '../../store/machine/machine.ts'
import { refreshPersonKeys } from '../person/person-key.ts'
import { installOwner, openAccount } from './account.ts'
import type { Actor } from '../app.ts'

export async function getAccount(db: Db, id: string): Promise<Result<AccountWithStanding>> {
  const account = await findAccountWithStanding(db, id)
  return account === undefined ? noSuchAccount() : ok(account)
}

export interface CreateAccountInput {
  readonly name: string
  readonly ownerEmail: string
  readonly ownerName: string | null
  /** Scopes of the first key. null: all that a customer needs, and `supply` for a supplier. */
  readonly scopes: readonly Scope[] | null
  /** null: not a supplier. */
  readonly platformFeePercentage: number | null
}

/** `keyText` is shown once. */
export async function createAccount(
  tx: Tx,
  actor: Actor,
  input: CreateAccountInput,
): Promise<Result<{ account: AccountWithStanding; keyText: string }>> {
  const platformFeeBp = feeInBasisPoints(input.platformFeePercentage)
  if (platformFeeBp === undefined) return badFee()
  const opened = await openAccount(tx, {
    name: input.name,
    ownerEmail: input.ownerEmail,
    ownerName: input.ownerName,
    scopes: withoutRepeats(input.scopes ?? firstScopes(platformFeeBp !== null)),
    platformFeeBp,
  })
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'account.create',
    accountId: opened.account.id,
    subject: opened.personId,
    detail: { name: input.name, platformFeeBp, firstKey: opened.key.publicId },
  })
  const account = await getAccount(tx.db, opened.account.id)
  return account.ok ? ok({ account: account.value, keyText: opened.key.text }) : account
}

export interface RestoreOwnerInput {
  readonly accountId: string
  readonly ownerEmail: string
  readonly ownerName: string | null
  readonly reason: string
}

/** `keyText` is shown once. Also for accounts with a working key: a lost key still works. */
export async function restoreOwner(
  tx: Tx,
  actor: Actor,
  input: RestoreOwnerInput,
): Promise<Result<{ account: AccountWithStanding; personId: string; keyText: string }>> {
  const locked = await lockAccount(tx, input.accountId)
  if (locked === undefined) return noSuchAccount()
  const { personId, key } = await installOwner(tx, locked.id, {
    ...input,
    scopes: firstScopes(locked.platform_fee_bp !== null),
    keyName: 'Restored by the operator',
  })
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'account.restore_owner',
    accountId: locked.id,
    subject: personId,
    reason: input.reason,
    detail: { name: input.ownerEmail, key: key.publicId },
  })
  const account = await getAccount(tx.db, locked.id)
  return account.ok ? ok({ account: account.value, personId, keyText: key.text }) : account
}

/** Default scopes of the first key of an account. */
export function firstScopes(supplier: boolean): Scope[] {
  return scopes.filter((scope) => scope !== 'operator' && (scope !== 'supply' || supplier))
}

export interface ChangeAccountInput {
  readonly accountId: string
  readonly quota?: QuotaChange | undefined
  readonly platformFeePercentage?: number | null | undefined
  readonly suspended?: boolean | undefined
  /** Zero removes the line. */
  readonly creditLine?: NanoUsd | undefined
  readonly reason: string
}

export async function changeAccount(
  tx: Tx,
  actor: Actor,
  input: ChangeAccountInput,
): Promise<Result<AccountWithStanding>> {
  const { accountId, quota, suspended, creditLine } = input
  const fee = input.platformFeePercentage
  if (quota === undefined && fee === undefined && suspended === undefined && creditLine === undefined) {
    return fail('nothing_to_change')
  }
  if (suspended === true && accountId === actor.accountId) {
    return failField(['suspended'], 'cannot_suspend_self')
  }
  const platformFeeBp = fee === undefined ? undefined : feeInBasisPoints(fee)
  if (fee !== undefined && platformFeeBp === undefined) return badFee()
  const account = await lockAccount(tx, accountId)
  if (account === undefined) return noSuchAccount()
  if (fee === null) {
    const obstacle = await findSupplierObstacle(tx, accountId)
    if (obstacle !== undefined) return failField(['platformFeePercentage'], 'still_a_supplier', obstacle)
  }
  const changed: AccountChange = {
    ...(quota === undefined ? {} : { quota: mergeQuota(account.quota, quota) }),
    ...(platformFeeBp === undefined ? {} : { platformFeeBp }),
    // Suspending again keeps the first time.
    ...(suspended === undefined ? {} : { suspendedAt: suspended ? (account.suspended_at ?? tx.clock.now()) : null }),
  }
  if (Object.keys(changed).length > 0) await updateAccount(tx, accountId, changed)
  const lineBefore = await readCreditLine(tx.db, accountId)
  if (creditLine !== undefined) await saveCreditLine(tx, accountId, creditLine)
  if (platformFeeBp !== undefined) await refreshPersonKeys(tx, accountId)
  // Servers cache these with the keys.
  if (suspended !== undefined || quota !== undefined || platformFeeBp !== undefined)
    await notifyAccountKeys(tx, accountId)
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'account.change',
    accountId,
    reason: input.reason,
    detail: {
      before: {
        ...detailOf({
          quota: account.quota,
          platformFeeBp: account.platform_fee_bp,
          suspendedAt: account.suspended_at,
        }),
        creditLineUsd: formatUsd(lineBefore),
      },
      changed: {
        ...detailOf(changed),
        ...(creditLine === undefined ? {} : { creditLineUsd: formatUsd(creditLine) }),
      },
    },
  })
  return getAccount(tx.db, accountId)
}

/** Why a supplier must keep its fee: its machines would earn without one. undefined: it may stop being a supplier. */
async function findSupplierObstacle(tx: Tx, accountId: string): Promise<{ unpaid: NanoUsd | undefined } | undefined> {
  if ((await listFleet(tx.db, { supplierId: accountId, limit: 1 })).length > 0) {
    return { unpaid: undefined }
  }
  const { earnings } = await readBalances(tx.db, accountId)
  return earnings > 0n ? { unpaid: earnings } : undefined
}

/** Times as text. */
function detailOf(change: AccountChange): Record<string, unknown> {
  const { suspendedAt, ...rest } = change
  return suspendedAt === undefined ? rest : { ...rest, suspendedAt: formatInstantOrNull(suspendedAt) }
}

export function noSuchAccount(): Failure {
  return fail('account_not_found')
}

/** Percent as basis points. undefined: it is finer than that, and a fee must not be rounded. */
function feeInBasisPoints(percentage: number | null): number | null | undefined {
  if (percentage === null) return null
  const basisPoints = Math.round(percentage * 100)
  return Math.abs(percentage * 100 - basisPoints) < 1e-6 ? basisPoints : undefined
}

function badFee(): Failure {
  return failField(['platformFeePercentage'], 'bad_fee')
}
