/**
 * Credits, adjustments, refunds and payouts by an operator. Each is one posting whose key comes from the request's
 * idempotency key, so money does not move twice even after the stored response has been deleted. The account's balances
 * are locked first, so the checks hold until the posting is written.
 */
import { randomUUID } from 'node:crypto'
import { sha256 } from '../../base/id.ts'
import { MAX_INT32 } from '../../base/limits.ts'
import { formatUsd, nanoUsdOf, usd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { EventType } from '../../contract/event-type.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Tx } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { lockAvailable, post, readBalances, type Balances, type LedgerKind } from '../../store/ledger/ledger.ts'
import { findOperatorPosting, readRefundable, type OperatorPosting } from '../../store/ledger/operator-posting.ts'
import { findRental } from '../../store/rental/rental.ts'
import { resumeBatches } from '../../store/batch/batch.ts'
import type { Actor } from '../app.ts'
import { noSuchAccount } from '../account/operator-account.ts'

export interface MoneyInput {
  readonly accountId: string
  readonly amount: NanoUsd
  readonly reason: string
  readonly idempotencyKey: string | undefined
}

export interface Movement {
  readonly postingKey: string
  readonly replayed: boolean
  readonly balances: Balances
}

/** A larger balance plus its refunds could overflow a bigint column. */
const maxBalance = nanoUsdOf(4n * usd('999999999'))

/** A purchase is money received; a credit is a gift. */
export async function creditAccount(
  tx: Tx,
  actor: Actor,
  input: MoneyInput & { kind: 'purchase' | 'credit' },
): Promise<Result<Movement>> {
  const purchase = input.kind === 'purchase'
  return move(tx, actor, input, {
    kind: input.kind,
    from: purchase ? 'funding' : 'adjustments',
    to: 'available',
    memo: purchase ? 'Purchase' : 'Credit',
    event: 'balance.credited',
  })
}

/** Positive or negative; the balance never goes below zero. */
export async function adjustAccount(tx: Tx, actor: Actor, input: MoneyInput): Promise<Result<Movement>> {
  if (input.amount === 0n) return failField(['amountUsd'], 'zero_amount')
  const isIncrease = input.amount > 0n
  const amount = isIncrease ? input.amount : nanoUsdOf(0n - input.amount)
  return move(
    tx,
    actor,
    { ...input, amount },
    {
      kind: 'adjustment',
      from: isIncrease ? 'adjustments' : 'available',
      to: isIncrease ? 'available' : 'adjustments',
      memo: 'Adjustment',
      event: 'balance.adjusted',
    },
  )
}

/** Refunds up to the amount paid for the rental, minus earlier refunds. The supplier keeps its share. */
export async function refundCharge(
  tx: Tx,
  actor: Actor,
  input: MoneyInput & { rentalId: number },
): Promise<Result<Movement>> {
  const { accountId, rentalId } = input
  const rental = rentalId > MAX_INT32 ? undefined : await findRental(tx.db, rentalId)
  if (rental?.account_id !== accountId) {
    return fail('rental_not_found')
  }
  return move(tx, actor, input, {
    kind: 'refund',
    from: 'revenue',
    to: 'available',
    memo: `Refund of rental ${rentalId}`,
    event: 'balance.credited',
    rentalId,
    refuse: async () => {
      const max = await readRefundable(tx, accountId, rentalId)
      if (input.amount <= max) return undefined
      return failField(['amountUsd'], 'refund_too_large', { max })
    },
  })
}

/** Records a payout of earnings; the transfer itself happens at the operator's bank. */
export async function payOutSupplier(tx: Tx, actor: Actor, input: MoneyInput): Promise<Result<Movement>> {
  return move(tx, actor, input, { kind: 'payout', from: 'earnings', to: 'payouts', memo: 'Payout' })
}

interface MoveOptions {
  readonly kind: 'purchase' | 'credit' | 'adjustment' | 'refund' | 'payout'
  readonly from: LedgerKind
  readonly to: LedgerKind
  readonly memo: string
  /** The customer's event. Payouts have none. */
  readonly event?: EventType
  readonly rentalId?: number
  /** A further check under the lock of the balances. */
  readonly refuse?: () => Promise<Failure | undefined>
}

async function move(tx: Tx, actor: Actor, input: MoneyInput, posting: MoveOptions): Promise<Result<Movement>> {
  const { accountId, amount, reason } = input
  if (!(await lockAvailable(tx, [accountId])).has(accountId)) return noSuchAccount()
  const postingKey = postingKeyOf(accountId, input.idempotencyKey)
  const previous = await findOperatorPosting(tx, postingKey)
  if (previous !== undefined) {
    return isSame(previous, amount, posting)
      ? ok({ postingKey, replayed: true, balances: await readBalances(tx.db, accountId) })
      : fail('idempotency_key_reused')
  }
  const refused = (await posting.refuse?.()) ?? (await refuseOverflow(tx, input, posting))
  if (refused !== undefined) return refused
  const ref = (kind: LedgerKind) => ({ accountId: houseKinds.has(kind) ? null : accountId, kind })
  const answer = await post(tx, {
    key: postingKey,
    kind: posting.kind,
    accountId,
    memo: posting.memo,
    actor: actor.keyId,
    reason,
    ...(posting.rentalId === undefined ? {} : { rentalId: posting.rentalId }),
    transfers: [{ from: ref(posting.from), to: ref(posting.to), amount }],
  })
  if (answer === 'insufficient') {
    return fail('insufficient_balance', { amount, purpose: posting.from === 'earnings' ? 'payout' : 'withdrawal' })
  }
  const balances = await readBalances(tx.db, accountId)
  await announce(tx, actor, input, posting, postingKey, balances)
  return ok({ postingKey, replayed: false, balances })
}

const houseKinds: ReadonlySet<LedgerKind> = new Set<LedgerKind>(['revenue', 'funding', 'adjustments', 'payouts'])

/** Writes the audit log and the customer's event, and wakes the loops that may wait for money. */
async function announce(
  tx: Tx,
  actor: Actor,
  { accountId, amount, reason }: MoneyInput,
  posting: MoveOptions,
  postingKey: string,
  balances: Balances,
): Promise<void> {
  const signed = formatUsd(posting.from === 'available' ? nanoUsdOf(0n - amount) : amount)
  const rental = posting.rentalId === undefined ? {} : { rentalId: posting.rentalId }
  await writeAudit(tx, {
    actor: actor.keyId,
    action: `balance.${posting.kind}`,
    accountId,
    subject: postingKey,
    reason,
    detail: { amountUsd: signed, ...rental },
  })
  if (posting.to === 'available') await resumeBatches(tx, accountId)
  if (posting.event === undefined) return
  recordEvent(tx, {
    accountId,
    type: posting.event,
    subject: { kind: 'balance', id: accountId },
    data: { amountUsd: signed, kind: posting.kind, availableUsd: formatUsd(balances.available), ...rental },
  })
  tx.wake.add('meter')
  tx.wake.add('volumes')
}

/** The key stays readable if it fits, so that an operator can find a posting by the request's key. */
function postingKeyOf(accountId: string, idempotencyKey: string | undefined): string {
  const key = idempotencyKey ?? randomUUID()
  return `op:${accountId}:${key.length <= 150 ? key : sha256(key).toString('hex')}`
}

function isSame(earlier: OperatorPosting, amount: NanoUsd, posting: MoveOptions): boolean {
  return (
    earlier.kind === posting.kind &&
    earlier.from_kind === posting.from &&
    earlier.to_kind === posting.to &&
    earlier.amount_nano === amount &&
    earlier.rental_id === (posting.rentalId ?? null)
  )
}

async function refuseOverflow(tx: Tx, input: MoneyInput, posting: MoveOptions): Promise<Failure | undefined> {
  if (posting.to !== 'available') return undefined
  const { available, held: heldAmount } = await readBalances(tx.db, input.accountId)
  if (available + heldAmount + input.amount <= maxBalance) return undefined
  return failField(['amountUsd'], 'balance_too_large')
}
