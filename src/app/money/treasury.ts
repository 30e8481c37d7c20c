/**
 * The money of gateways, in the database. Every call is one statement or one transaction. Requests that are already
 * settled, as after a crash, are skipped. Settling must not block on one bad record (its account may be missing after a
 * restored backup), so a rejected batch is halved until the bad record is alone; that one is written to the audit log
 * and skipped.
 */
import { addMs, MINUTE_MS, SECOND_MS, type Clock, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { formatUsd, type NanoUsd } from '../../base/money.ts'
import { within } from '../../base/within.ts'
import type { InferenceRecord } from '../../domain/inference-record.ts'
import type { Topped, Treasury } from '../../domain/purse.ts'
import { recordsOf, settleRecords, type Settlement } from '../../domain/settlement.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import { errorCode, transact, type Database, type Tx } from '../../store/platform/database.ts'
import {
  countGateways,
  giveBackPurse,
  readPurses,
  releasePurses,
  renewPurses,
  touchGateway,
  topUpPurse,
  type TopUp,
} from '../../store/request/purse.ts'
import { findSettled, settleRequests, type ShortPurse } from '../../store/request/settlement.ts'

/** How long a purse outlives a gateway that disappears. */
const PURSE_LIVES_MS = 10 * MINUTE_MS
/** A gateway unseen for this long counts as gone. */
export const GATEWAY_LIVES_MS = 30 * SECOND_MS
const RELEASE_BATCH = 200
/**
 * A call that hangs on a dead network must not block an account. It ends after this time; repeated calls count once.
 */
const ANSWER_MS = limits.statementTimeoutMs + 5 * SECOND_MS
const UNIQUE_VIOLATION = '23505'
const LATE = 'the database did not answer in time'

export interface GatewayTreasury extends Treasury {
  registerGateway(): Promise<void>
  /** Renews the gateway's last-seen time. */
  beat(): Promise<void>
  liveGateways(): Promise<number>
  /** Releases the purses of an earlier run of this gateway, whose requests are all settled. */
  releaseOwnPurses(): Promise<void>
  /** Amounts of purses in the database; missing ones are left out. */
  readPurses(holdKeys: readonly string[]): Promise<ReadonlyMap<string, NanoUsd>>
}

export function makeTreasury(options: { database: Database; clock: Clock; gatewayId: string }): GatewayTreasury {
  const { database, clock, gatewayId } = options
  const { db } = database
  const times = (): { now: Instant; expiresAt: Instant } => {
    const now = clock.now()
    return { now, expiresAt: addMs(now, PURSE_LIVES_MS) }
  }

  return {
    topUp: async (owner, amounts) => {
      const { now, expiresAt } = times()
      const topped = topUpPurse(db, gatewayId, owner, { ...amounts, now, expiresAt })
      return toppedOf(await within(ANSWER_MS, topped, LATE), expiresAt)
    },
    settle: (settlement) => within(ANSWER_MS, settleBatch(database, gatewayId, settlement), LATE),
    giveBack: async (holdKey, amount) => giveBackPurse(db, holdKey, amount, times()),
    renew: async (holdKeys) => {
      const { now, expiresAt } = times()
      await renewPurses(db, holdKeys, { now, expiresAt })
      return expiresAt
    },
    registerGateway: async () => touchGateway(db, gatewayId, clock.now()),
    beat: async () => touchGateway(db, gatewayId, clock.now()),
    liveGateways: async () => countGateways(db, addMs(clock.now(), -GATEWAY_LIVES_MS)),
    releaseOwnPurses: async () => {
      while ((await releasePurses(db, gatewayId, clock.now(), RELEASE_BATCH)) === RELEASE_BATCH);
    },
    readPurses: async (holdKeys) => readPurses(db, holdKeys),
  }
}

function toppedOf(topped: TopUp, expiresAt: Instant): Topped {
  if (topped.outcome !== 'granted') return { kind: 'insufficient', why: topped.outcome }
  return { kind: 'granted', holdKey: topped.hold_key, amount: topped.amount, expiresAt }
}

async function settleBatch(database: Database, gatewayId: string, settlement: Settlement): Promise<void> {
  try {
    await transact(database, (tx) => settleIn(tx, gatewayId, settlement))
  } catch (error) {
    const reason = refusalOf(error)
    if (reason === undefined) throw error
    const records = recordsOf(settlement)
    const settled = errorCode(error) === UNIQUE_VIOLATION ? await findSettled(database.db, records) : new Set<string>()
    const settlePart = (some: readonly InferenceRecord[]): Promise<void> =>
      settleRecords({ settle: (smaller) => settleBatch(database, gatewayId, smaller) }, some)
    if (settled.size > 0) return settlePart(records.filter((record) => !settled.has(record.requestId)))
    const [first] = records
    if (records.length === 1 && first !== undefined)
      return transact(database, (tx) => auditRejected(tx, gatewayId, first, reason))
    const middle = Math.ceil(records.length / 2)
    await settlePart(records.slice(0, middle))
    await settlePart(records.slice(middle))
  }
}

/** Settles as part of a transaction: what that writes besides exists if, and only if, it is charged. */
export async function settleIn(tx: Tx, gatewayId: string, settlement: Settlement): Promise<void> {
  const expiresAt = addMs(tx.clock.now(), PURSE_LIVES_MS)
  for (const purse of await settleRequests(tx, gatewayId, settlement, expiresAt))
    await auditShortfall(tx, gatewayId, purse)
}

/** The database's error for data that it will never accept. undefined: a retry may succeed. */
function refusalOf(error: unknown): string | undefined {
  const refused = /^(22|23|P0)/.test(errorCode(error) ?? '')
  return refused && error instanceof Error ? error.message : undefined
}

async function auditShortfall(tx: Tx, gatewayId: string, purse: ShortPurse): Promise<void> {
  await writeAudit(tx, {
    actor: 'gateway',
    action: 'purse.overdrawn',
    accountId: purse.account_id,
    subject: purse.hold_key,
    reason: 'The purse was released before its requests were settled',
    detail: {
      gateway: gatewayId,
      missingUsd: formatUsd(purse.missing_nano),
      borneByTheHouseUsd: formatUsd(purse.borne_nano),
    },
  })
}

/** The record, without the customer's content, so that an operator can correct the bill by hand. */
async function auditRejected(tx: Tx, gatewayId: string, record: InferenceRecord, reason: string): Promise<void> {
  const { requestBody: _, responseBody: __, ...facts } = record
  await writeAudit(tx, {
    actor: 'gateway',
    action: 'request.not_settled',
    subject: record.requestId,
    reason: reason,
    detail: { gateway: gatewayId, record: { ...facts, cost: facts.cost.toString() } },
  })
}
