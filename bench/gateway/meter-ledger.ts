/** The meter bench's ledger: its own PostgreSQL, one account with money, and queries for the counts afterwards. */
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { systemClock, toDate } from '../../src/base/instant.ts'
import { usd } from '../../src/base/money.ts'
import { startEmbeddedPostgres } from '../../src/server/data/embedded-postgres.ts'
import { openDatabase, transact, type Database } from '../../src/store/platform/database.ts'
import { post } from '../../src/store/ledger/ledger.ts'
import { migrate } from '../../src/store/platform/migrate.ts'
import { ACCOUNT, API_KEY, COST_NANO } from './meter-run.ts'

const CREDIT_USD = '1000'

export interface MeterLedger {
  readonly databaseUrl: string
  /** On the same disk as the database. */
  readonly dir: string
  stop(): Promise<void>
}

export async function openTestLedger(): Promise<MeterLedger> {
  const dir = await mkdtemp(path.join(os.tmpdir(), 'berth-bench-'))
  const postgres = await startEmbeddedPostgres({ dataDir: dir, log: () => {} })
  const database = openDatabase({ url: postgres.url, clock: systemClock, poolSize: 2 })
  try {
    await migrate(database.pool, 'schema')
    await openAccount(database)
  } finally {
    await database.close()
  }
  return {
    databaseUrl: postgres.url,
    dir,
    stop: async () => {
      await postgres.stop()
      await rm(dir, { recursive: true, force: true })
    },
  }
}

async function openAccount(database: Database): Promise<void> {
  await transact(database, async (tx) => {
    const created_at = toDate(tx.clock.now())
    await tx.db.insertInto('account').values({ id: ACCOUNT, name: 'Bench', created_at }).execute()
    await tx.db.insertInto('person').values({ id: 'usr_bench', email: 'bench@example.test', created_at }).execute()
    await tx.db
      .insertInto('api_key')
      .values({
        public_id: API_KEY,
        account_id: ACCOUNT,
        person_id: 'usr_bench',
        name: 'bench',
        last4: 'abcd',
        secret_hash: Buffer.alloc(32),
        scopes: ['inference'],
        created_at,
      })
      .execute()
    await post(tx, {
      key: 'purchase:bench',
      kind: 'purchase',
      accountId: ACCOUNT,
      memo: 'Purchase',
      actor: 'bench',
      reason: 'a bench needs money',
      transfers: [
        {
          from: { accountId: null, kind: 'funding' },
          to: { accountId: ACCOUNT, kind: 'available' },
          amount: usd(CREDIT_USD),
        },
      ],
    })
  })
}

export interface Counted {
  /** Acknowledged requests missing from the ledger. */
  readonly lost: number
  /** Requests charged more than once, or logged without a charge, by amounts and by rows. */
  readonly doubled: number
  /** All requests in the ledger, including unacknowledged ones. */
  readonly inLedger: number
}

export async function countLedger(databaseUrl: string, seen: readonly string[]): Promise<Counted> {
  const client = new pg.Client({ connectionString: databaseUrl })
  client.on('error', () => {})
  await client.connect()
  try {
    const { rows: missing } = await client.query<{ n: number }>(
      `select count(*)::integer as n from unnest($1::text[]) as seen (id)
       where not exists (select 1 from request where request_id = seen.id)`,
      [seen],
    )
    const { rows } = await client.query<{ costs: number; logged: number; charged: string; gone: string }>(
      `select (select count(*)::integer from request where cost_nano = $2) as costs,
              (select count(*)::integer from request) as logged,
              (select coalesce(sum(t.amount_nano), 0) from posting p join transfer t on t.posting_id = p.id
               where p.account_id = $1 and p.kind = 'charge') as charged,
              (select $3::bigint * 1000000000 - sum(balance_nano) from ledger_account
               where account_id = $1 and kind in ('available', 'held')) as gone`,
      [ACCOUNT, COST_NANO, CREDIT_USD],
    )
    const { costs, logged, charged, gone } = rows[0] ?? { costs: 0, logged: 0, charged: '0', gone: '0' }
    const due = BigInt(costs) * BigInt(COST_NANO)
    const over = (text: string): number => Math.abs(Number(BigInt(text) - due)) / COST_NANO
    return {
      lost: missing[0]?.n ?? Number.NaN,
      doubled: over(charged) + over(gone) + Math.abs(logged - costs),
      inLedger: costs,
    }
  } finally {
    await client.end()
  }
}
