/** Gateways with a meter on a real database and journal; the database can be made to fail. */
import * as fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import type { Actor } from '../../src/app/app.ts'
import { makeTreasury } from '../../src/app/money/treasury.ts'
import type { NanoUsd } from '../../src/base/money.ts'
import type { PurseOwner } from '../../src/domain/purse.ts'
import { Journal, type JournalOptions } from '../../src/gateway/journal/journal.ts'
import { makeMeter, type EndedCall, type Meter, type Reservation } from '../../src/gateway/money/meter.ts'
import type { MeterTreasury } from '../../src/gateway/money/meter-options.ts'
import { readRequestCosts, type RequestCost } from '../../src/store/ledger/billing.ts'
import { inferenceRecord } from './ended-request.ts'
import { sharedPurse, type PurseLedger } from './purse-ledger.ts'

/** Gateways of the running test, without those treated as killed. */
const running = new Set<Meter>()

export type Fault = 'none' | 'before' | 'after'

export interface Gateway {
  readonly meter: Meter
  readonly dir: string
  readonly gatewayId: string
  readonly reported: string[]
  /** When the database fails: before a call takes effect, or after it, losing the answer. */
  fault: Fault
}

let gateways = 0
const AN_HOUR_MS = 3_600_000

/** Closed when its test ends. On an existing journal it is the same gateway after a crash. */
export async function startGateway(
  ledger: PurseLedger,
  more: {
    after?: Gateway
    settleSoonMs?: number
    settleEveryMs?: number
    unsettledRecords?: number
    write?: JournalOptions['write']
  } = {},
): Promise<Gateway> {
  gateways += 1
  const dir = more.after?.dir ?? makeFolder()
  const gatewayId = more.after?.gatewayId ?? `gate${gateways}`
  const reported: string[] = []
  const log = {
    warn: (_: unknown, message: string) => void reported.push(message),
    error: (_: unknown, message: string) => void reported.push(message),
  }
  const journal = new Journal({ dir, log, ...(more.write === undefined ? {} : { write: more.write }) })
  onTestFinished(() => journal.close())
  const treasuryOfLedger = makeTreasury({ database: ledger.database, clock: ledger.clock, gatewayId })
  const faulty = async <T>(work: () => Promise<T>): Promise<T> => {
    if (gateway.fault === 'before') throw new Error('the database is away')
    const answer = await work()
    if (gateway.fault === 'after') throw new Error('the connection broke')
    return answer
  }
  const treasury: MeterTreasury = {
    topUp: (owner, amounts) => faulty(() => treasuryOfLedger.topUp(owner, amounts)),
    settle: (records) => faulty(() => treasuryOfLedger.settle(records)),
    giveBack: (holdKey, amount) => faulty(() => treasuryOfLedger.giveBack(holdKey, amount)),
    renew: (holdKeys) => faulty(() => treasuryOfLedger.renew(holdKeys)),
    readPurses: (holdKeys) => faulty(() => treasuryOfLedger.readPurses(holdKeys)),
    registerGateway: () => faulty(() => treasuryOfLedger.registerGateway()),
    beat: () => faulty(() => treasuryOfLedger.beat()),
    releaseOwnPurses: () => faulty(() => treasuryOfLedger.releaseOwnPurses()),
  }
  const meter = makeMeter({
    treasury,
    journal,
    clock: ledger.clock,
    log,
    seal: (text) => ledger.app.vault.seal(text),
    settleSoonMs: more.settleSoonMs ?? AN_HOUR_MS,
    settleEveryMs: more.settleEveryMs ?? AN_HOUR_MS,
    unsettledRecords: more.unsettledRecords ?? 50_000,
  })
  const gateway: Gateway = { meter, dir, gatewayId, reported, fault: 'none' }
  await meter.start()
  running.add(meter)
  onTestFinished(async () => {
    if (running.delete(meter)) await meter.close()
  })
  return gateway
}

/** Gateways opened in it later are closed before it is removed. */
function makeFolder(): string {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-meter-'))
  onTestFinished(() => fs.rmSync(folder, { recursive: true, force: true }))
  return folder
}

export async function reserve(meter: Meter, owner: PurseOwner, worst: NanoUsd): Promise<Reservation> {
  const got = meter.tryReserve(owner, worst)
  if (got !== undefined) return got
  const topped = await meter.reserve(owner, worst)
  if (!topped.ok) throw new Error(topped.message)
  return topped.value
}

let requests = 0
export function callOf(ledger: PurseLedger, actor: Actor, cost: NanoUsd, more: Partial<EndedCall> = {}): EndedCall {
  requests += 1
  return {
    ...inferenceRecord({ requestId: `req_${requests.toString().padStart(6, '0')}` }),
    accountId: actor.accountId,
    apiKeyId: actor.keyId,
    at: ledger.clock.now(),
    cost,
    ...more,
  }
}

export function finish(meter: Meter, reservation: Reservation | undefined, call: EndedCall): Promise<string> {
  return new Promise((resolve) => meter.finish(reservation, call, () => resolve(call.requestId)))
}

/** A request from start to end. */
export async function serve(
  ledger: PurseLedger,
  meter: Meter,
  actor: Actor,
  worst: NanoUsd,
  cost: NanoUsd,
): Promise<string> {
  return finish(meter, await reserve(meter, sharedPurse(actor), worst), callOf(ledger, actor, cost))
}

export function costsOf(ledger: PurseLedger, actor: Actor, ids: readonly string[]): Promise<RequestCost[]> {
  return readRequestCosts(ledger.database.db, actor.accountId, ids)
}

/** As after kill -9: nothing is closed or returned. */
export function forgetGateways(): void {
  running.clear()
}
