/** A ledger with gateways that spend from it, and queries for both. */
import type { Selectable } from 'kysely'
import type { Actor } from '../../src/app/app.ts'
import { makeTreasury, type GatewayTreasury } from '../../src/app/money/treasury.ts'
import { zeroUsd, type NanoUsd } from '../../src/base/money.ts'
import type { InferenceRecord } from '../../src/domain/inference-record.ts'
import type { PurseOwner, Topped } from '../../src/domain/purse.ts'
import { listAudit } from '../../src/store/platform/audit.ts'
import type { Database } from '../../src/store/platform/database.ts'
import { readBalances, type Balances } from '../../src/store/ledger/ledger.ts'
import { ledgerChecks, runCheck, type Finding } from '../../src/store/ledger/ledger-verify.ts'
import type { Tables } from '../../src/store/platform/tables.ts'
import { openTestLedger, type TestLedger } from './ledger.ts'
import { inferenceRecord } from './ended-request.ts'

export interface PurseLedger extends TestLedger {
  /** The started treasuries, in order. */
  readonly gatewayIds: readonly string[]
  startTreasury(database?: Database): Promise<GatewayTreasury>
  /** Returns the key of the purse's hold. */
  fill(treasury: GatewayTreasury, actor: Actor, amount: NanoUsd, owner?: PurseOwner): Promise<string>
  recordOf(actor: Actor, holdKey: string | null, cost: NanoUsd, more?: Partial<InferenceRecord>): InferenceRecord
  limitKey(actor: Actor, limits: { monthly?: NanoUsd; total?: NanoUsd }): Promise<void>
  balances(actor: Actor): Promise<Balances>
  /** Newest first. */
  audits(action: string, accountId?: string): Promise<Array<Selectable<Tables['audit']>>>
  /** Checks the whole ledger. */
  findings(): Promise<Finding[]>
}

export const sharedPurse = (actor: Actor): PurseOwner => ({ accountId: actor.accountId, apiKeyId: null })
export const purseOfKey = (actor: Actor): PurseOwner => ({ accountId: actor.accountId, apiKeyId: actor.keyId })
export const grantedBy = (topped: Topped): NanoUsd => (topped.kind === 'granted' ? topped.amount : zeroUsd)

export async function openPurseLedger(): Promise<PurseLedger> {
  const ledger = await openTestLedger()
  const { database, clock } = ledger
  const gatewayIds: string[] = []
  let requests = 0
  return {
    ...ledger,
    gatewayIds,
    startTreasury: async (over = database) => {
      const gatewayId = `gw${gatewayIds.length + 1}`
      gatewayIds.push(gatewayId)
      const treasury = makeTreasury({ database: over, clock, gatewayId })
      await treasury.registerGateway()
      return treasury
    },
    fill: async (treasury, actor, amount, owner = sharedPurse(actor)) => {
      const topped = await treasury.topUp(owner, { maximum: amount, minimum: amount })
      if (topped.kind !== 'granted') throw new Error(`not granted: ${topped.why}`)
      return topped.holdKey
    },
    recordOf: (actor, holdKey, cost, more = {}) => {
      requests += 1
      return inferenceRecord({
        requestId: `req_${requests.toString().padStart(6, '0')}`,
        accountId: actor.accountId,
        apiKeyId: actor.keyId,
        holdKey,
        at: clock.now(),
        cost,
        ...more,
      })
    },
    limitKey: async (actor, limits) => {
      await database.db
        .updateTable('api_key')
        .set({ monthly_limit_nano: limits.monthly ?? null, total_limit_nano: limits.total ?? null })
        .where('public_id', '=', actor.keyId)
        .execute()
    },
    balances: (actor) => readBalances(database.db, actor.accountId),
    audits: async (action, accountId) => {
      const rows = await listAudit(database.db, { limit: 50, ...(accountId === undefined ? {} : { accountId }) })
      return rows.filter((row) => row.action === action)
    },
    findings: async () => {
      const found: Finding[] = []
      for (const check of ledgerChecks) found.push(...(await runCheck(database.db, check, 10)).findings)
      return found
    },
  }
}
