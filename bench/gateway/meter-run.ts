/**
 * The meter alone, without HTTP: journal, purses and treasury on a real database, with paid requests that end as fast
 * as they can be recorded. A request starts when the previous one is recorded, like a client that waits for the end of
 * its response.
 */
import { makeTreasury } from '../../src/app/money/treasury.ts'
import { systemClock } from '../../src/base/instant.ts'
import { nanoUsdOf } from '../../src/base/money.ts'
import { noUnits } from '../../src/domain/inference.ts'
import { newRequestId } from '../../src/gateway/call.ts'
import { Journal } from '../../src/gateway/journal/journal.ts'
import { makeMeter, type Meter, type Reservation } from '../../src/gateway/money/meter.ts'
import { openDatabase } from '../../src/store/platform/database.ts'
import { pause } from './child.ts'

export const ACCOUNT = 'acc_bench'
export const API_KEY = 'benchkey'
export const COST_NANO = 44_000
const WORST_NANO = 200_000
/** Of a gateway under load. */
const IN_FLIGHT = 64
const GATEWAY = 'bench'
const owner = { accountId: ACCOUNT, apiKeyId: null } as const
/** Pause while the meter is full and the database catches up. */
const FULL_PAUSE_MS = 5

const log = {
  warn: (facts: Readonly<Record<string, unknown>>, message: string) => console.error(message, facts),
  error: (facts: Readonly<Record<string, unknown>>, message: string) => console.error(message, facts),
}

export interface MeterRun {
  readonly meter: Meter
  readonly journal: Journal
  close(): Promise<void>
}

/** Settles what an earlier run left in the journal, then is ready for more. */
export async function openMeter(options: { databaseUrl: string; journalDir: string }): Promise<MeterRun> {
  const clock = systemClock
  const database = openDatabase({ url: options.databaseUrl, clock, poolSize: 4 })
  const journal = new Journal({ dir: options.journalDir, log })
  const treasury = makeTreasury({ database, clock, gatewayId: GATEWAY })
  const meter = makeMeter({ treasury, journal, clock, log, seal: (text) => text })
  await meter.start()
  return {
    meter,
    journal,
    close: async () => {
      await meter.close()
      await journal.close()
      await database.close()
    },
  }
}

/**
 * Completes requests until `mayBegin` returns false. Calls `ended` for each when its client could see the end of its
 * response.
 */
export async function endRequests(
  { meter }: MeterRun,
  mayBegin: () => boolean,
  ended: (requestId: string) => void,
): Promise<void> {
  const worker = async (): Promise<void> => {
    while (mayBegin()) {
      const reservation = await reserve(meter)
      const requestId = newRequestId(systemClock.now())
      await new Promise<void>((resolve) => {
        meter.finish(reservation, callOf(requestId), () => {
          ended(requestId)
          resolve()
        })
      })
    }
  }
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker))
}

async function reserve(meter: Meter): Promise<Reservation> {
  const worst = nanoUsdOf(BigInt(WORST_NANO))
  for (;;) {
    const at = meter.tryReserve(owner, worst)
    if (at !== undefined) return at
    const reserved = await meter.reserve(owner, worst)
    if (reserved.ok) return reserved.value
    if (reserved.reason !== 'cannot_record') throw new Error(reserved.message)
    await pause(FULL_PAUSE_MS)
  }
}

function callOf(requestId: string): Parameters<Meter['finish']>[1] {
  return {
    requestId,
    accountId: ACCOUNT,
    apiKeyId: API_KEY,
    operation: 'chat',
    model: 'bench',
    deployment: 'dep_bench',
    at: systemClock.now(),
    status: 200,
    outcome: 'answered',
    reason: null,
    streamed: false,
    units: { ...noUnits, inputTokens: 40, outputTokens: 100 },
    cost: nanoUsdOf(BigInt(COST_NANO)),
    firstByteMs: 12,
    totalMs: 34,
    traceId: requestId.slice(4),
    requestBody: null,
    responseBody: null,
  }
}
