/**
 * Inference charges in the ledger, read with plain SQL independently of the server's code, to compare with the
 * responses clients got.
 */
import pg from 'pg'
import { expect } from 'vitest'
import { costOfUsage, type ChatResult, type TokenPrices } from './chat-client.ts'

export interface BilledRequest {
  readonly cost: bigint
  readonly traceId: string
  readonly operation: string
  readonly outcome: string
  readonly inputUnits: number
  readonly cachedUnits: number
  readonly outputUnits: number
}

export interface InferenceLedger {
  readonly available: bigint
  readonly held: bigint
  /** The account's money in all gateways' purses. */
  readonly inPurses: bigint
  /** Total charged to the account. */
  readonly charged: bigint
  /** By request id. */
  readonly billed: ReadonlyMap<string, BilledRequest>
  /** Shortfalls the ledger absorbed: requests their purse did not cover, and rejected records. */
  readonly shortfalls: readonly string[]
}

export interface LedgerReader {
  balance(accountId: string): Promise<{ available: bigint; held: bigint }>
  read(accountId: string): Promise<InferenceLedger>
  /** Total in all purses. */
  inAnyPurse(): Promise<bigint>
  close(): Promise<void>
}

export function readLedgerOf(databaseUrl: string): LedgerReader {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 2 })
  pool.on('error', () => {})
  // bigints arrive as text.
  const rows = async (sql: string, values: unknown[] = []): Promise<Array<Record<string, string>>> =>
    (await pool.query(sql, values)).rows as Array<Record<string, string>>
  const sum = async (sql: string, values: unknown[] = []): Promise<bigint> => {
    const [row] = await rows(sql, values)
    return BigInt(row?.['nano'] ?? 0)
  }
  const balance = async (accountId: string): Promise<{ available: bigint; held: bigint }> => {
    const found = await rows('select kind, balance_nano::text as nano from ledger_account where account_id = $1', [
      accountId,
    ])
    const of = (kind: string): bigint => BigInt(found.find((row) => row['kind'] === kind)?.['nano'] ?? 0)
    return { available: of('available'), held: of('held') }
  }
  return {
    balance,
    read: async (accountId) => {
      const billed = await rows(
        `select request_id, cost_nano::text as cost, trace_id, operation, outcome, input_units, cached_units, output_units
         from request where account_id = $1`,
        [accountId],
      )
      return {
        ...(await balance(accountId)),
        inPurses: await sum(
          `select coalesce(sum(amount_nano), 0)::text as nano from hold where account_id = $1 and key like 'purse:%'`,
          [accountId],
        ),
        charged: await sum(
          `select coalesce(sum(t.amount_nano), 0)::text as nano
           from posting p join transfer t on t.posting_id = p.id where p.account_id = $1 and p.kind = 'charge'`,
          [accountId],
        ),
        billed: new Map(billed.map((row) => [row['request_id'] ?? '', billedOf(row)])),
        shortfalls: (
          await rows(
            `select action || ' ' || coalesce(subject, '') || ' ' || detail::text as text from audit where actor = 'gateway'
             union all select key || ' ' || memo from posting where key like 'borne:%'`,
          )
        ).map((row) => row['text'] ?? ''),
      }
    },
    inAnyPurse: () => sum(`select coalesce(sum(amount_nano), 0)::text as nano from hold where key like 'purse:%'`),
    close: () => pool.end(),
  }
}

function billedOf(row: Record<string, string>): BilledRequest {
  return {
    cost: BigInt(row['cost'] ?? 0),
    traceId: row['trace_id'] ?? '',
    operation: row['operation'] ?? '',
    outcome: row['outcome'] ?? '',
    inputUnits: Number(row['input_units']),
    cachedUnits: Number(row['cached_units']),
    outputUnits: Number(row['output_units']),
  }
}

/**
 * Each request whose full answer reached a client is billed at the price of its reported usage, under the name of its
 * protocol; no request is billed twice; nothing is billed that no client sent; and the charges to the account are their sum.
 */
export function expectBilledOnce(
  ledger: InferenceLedger,
  results: readonly ChatResult[],
  money: { prices: TokenPrices; paidIn: bigint },
): void {
  const { prices, paidIn } = money
  const complete = results.filter((one) => one.status === 200 && one.isComplete)
  const wrong = complete.flatMap((one) => {
    const { cost, operation } = ledger.billed.get(one.requestId ?? '') ?? {}
    const due = one.usage === undefined ? undefined : costOfUsage(prices, one.usage)
    const isNamed = operation === (one.ask.protocol ?? 'chat')
    return due !== undefined && cost === due && isNamed
      ? []
      : [`${one.requestId}: costs ${due}, billed ${cost} as ${operation}`]
  })
  expect(wrong, 'answers that are not billed as they should be').toEqual([])
  expect(new Set(complete.map((one) => one.requestId)).size, 'two answers under one id').toBe(complete.length)

  const costly = [...ledger.billed.values()].filter(({ cost }) => cost > 0n)
  const asked = new Set(results.map((one) => one.traceId))
  expect(
    costly.filter(({ traceId }) => !asked.has(traceId)),
    'billed without a request',
  ).toEqual([])
  expect(new Set(costly.map(({ traceId }) => traceId)).size, 'one request billed twice').toBe(costly.length)

  const spent = costly.reduce((sum, { cost }) => sum + cost, 0n)
  expect({ charged: ledger.charged, left: ledger.available + ledger.held, shortfalls: ledger.shortfalls }).toEqual({
    charged: spent,
    left: paidIn - spent,
    shortfalls: [],
  })
}
