/** What one more settled request costs PostgreSQL, through the treasury that gateways use. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { makeTreasury } from '../../src/app/money/treasury.ts'
import { systemClock } from '../../src/base/instant.ts'
import { nanoUsdOf } from '../../src/base/money.ts'
import { noUnits } from '../../src/domain/inference.ts'
import type { InferenceRecord } from '../../src/domain/inference-record.ts'
import { newRequestId } from '../../src/gateway/call.ts'
import { openDatabase } from '../../src/store/platform/database.ts'
import { cpuMs, median, type BenchServer } from '../harness.ts'
import { settleRecords } from '../../src/domain/settlement.ts'

const PAYING = 50
const BATCH = 2_000
const BATCHES_PER_ROUND = 10
const ROUNDS = 3
const COST_NANO = 44_000
const PURSE_NANO = 50_000_000_000n

/** CPU of PostgreSQL in µs per request, the median of three rounds. */
export async function measureWrites(server: BenchServer): Promise<number> {
  const database = openDatabase({ url: server.databaseUrl, clock: systemClock, poolSize: 1 })
  const treasury = makeTreasury({ database, clock: systemClock, gatewayId: 'bench-history' })
  try {
    await treasury.registerGateway()
    const payers = await findPayers(server.databaseUrl)
    const purses: Array<Pick<InferenceRecord, 'accountId' | 'apiKeyId' | 'holdKey'>> = []
    for (const { accountId, apiKeyId } of payers) {
      const amounts = { maximum: nanoUsdOf(PURSE_NANO), minimum: nanoUsdOf(PURSE_NANO) }
      const topped = await treasury.topUp({ accountId, apiKeyId: null }, amounts)
      if (topped.kind !== 'granted') throw new Error(`no purse for ${accountId}: ${topped.why}`)
      purses.push({ accountId, apiKeyId, holdKey: topped.holdKey })
    }
    const batchOf = (): InferenceRecord[] =>
      Array.from({ length: BATCH }, (_, n) => recordOf(purses[n % purses.length] ?? nobody))
    await settleRecords(treasury, batchOf())
    const perRequestUs: number[] = []
    for (let round = 0; round < ROUNDS; round += 1) {
      const batches = Array.from({ length: BATCHES_PER_ROUND }, batchOf)
      const before = cpuMs(server.postgresPid)
      for (const batch of batches) await settleRecords(treasury, batch)
      perRequestUs.push(((cpuMs(server.postgresPid) - before) * 1_000) / (BATCH * BATCHES_PER_ROUND))
    }
    return median(perRequestUs)
  } finally {
    await database.close()
  }
}

const nobody = { accountId: '', apiKeyId: '', holdKey: null }

async function findPayers(url: string): Promise<Array<{ accountId: string; apiKeyId: string }>> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ accountId: string; apiKeyId: string }>(
    `select account_id as "accountId", api_key_id as "apiKeyId" from bench_account order by rank limit $1`,
    [PAYING],
  )
  await client.end()
  return rows
}

function recordOf(payer: Pick<InferenceRecord, 'accountId' | 'apiKeyId' | 'holdKey'>): InferenceRecord {
  const at = systemClock.now()
  return {
    ...payer,
    requestId: newRequestId(at),
    operation: 'chat',
    model: 'small',
    deployment: 'dep_000000000000000000001',
    at,
    status: 200,
    outcome: 'answered',
    reason: null,
    streamed: false,
    units: { ...noUnits, inputTokens: 200, outputTokens: 60 },
    cost: nanoUsdOf(BigInt(COST_NANO)),
    firstByteMs: 80,
    totalMs: 900,
    traceId: randomBytes(16).toString('hex'),
    requestBody: null,
    responseBody: null,
  }
}
