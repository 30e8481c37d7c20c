/** What customers read of their history, over HTTP, for accounts of every size. */
import type pg from 'pg'
import { DAY_MS } from '../../src/base/instant.ts'
import { call, percentile, type BenchServer } from '../harness.ts'
import type { KnownAccount } from './fill.ts'

/** Requests of each account that are looked up. */
const IDS = 50
const DEEP_PAGE = 0.8

interface Sample {
  readonly key: string
  readonly requestIds: readonly string[]
  /** A place four fifths down the account's log, and one on its statement. */
  readonly deepRequest: string
  readonly deepLine: string
}

interface Read {
  readonly name: string
  readonly send: (sample: Sample, n: number) => { method: 'GET' | 'POST'; path: string; body?: unknown }
}

const get = (path: string): { method: 'GET'; path: string } => ({ method: 'GET', path })

export const reads: readonly Read[] = [
  {
    name: 'cost by request ID',
    send: ({ requestIds }, n) => ({
      method: 'POST',
      path: '/v2/usage/request-cost',
      body: { requestIds: [requestIds[n % requestIds.length]] },
    }),
  },
  { name: 'one request', send: ({ requestIds }, n) => get(`/v2/usage/requests/${requestIds[n % requestIds.length]}`) },
  { name: 'usage by day', send: () => get('/v2/usage/summary') },
  { name: 'costs by day and resource', send: () => get('/v2/usage/costs?groupBy=resource') },
  { name: 'statement by day, this month', send: () => get('/v2/billing/statement?limit=50') },
  { name: 'statement, first page', send: () => get('/v2/customer/statement?limit=50') },
  { name: 'statement, deep page', send: ({ deepLine }) => get(`/v2/customer/statement?limit=50&cursor=${deepLine}`) },
  { name: 'request log, first page', send: () => get('/v2/usage/requests?limit=50') },
  {
    name: 'request log, deep page',
    send: ({ deepRequest }) => get(`/v2/usage/requests?limit=50&cursor=${deepRequest}`),
  },
  { name: 'request log, failures only', send: () => get('/v2/usage/requests?limit=50&outcome=failed') },
]

/** IDs spread over `days` days of each account. */
export async function takeSamples(
  client: pg.Client,
  known: readonly KnownAccount[],
  { today, days }: { today: number; days: number },
): Promise<Sample[]> {
  const samples: Sample[] = []
  for (const { rank, key } of known) {
    const { rows } = await client.query<{ request_id: string; at: Date; account_id: string }>(
      `select found.* from bench_account b, generate_series(0, $4::integer - 1) n
       cross join lateral (select request_id, at, account_id from request where account_id = b.account_id
         and at <= to_timestamp(($2::float8 - $3::float8 * n / $4) / 1000) order by at desc limit 1) found
       where b.rank = $1 order by n`,
      [rank, today, days * DAY_MS, IDS],
    )
    const deep = rows[Math.floor(rows.length * DEEP_PAGE)]
    if (deep === undefined) throw new Error(`the account of rank ${rank} has no history`)
    const line = await client.query<{ id: string; at: Date }>(
      `select id, at from posting where account_id = $1 and kind = 'charge' and at <= $2 order by at desc, id desc limit 1`,
      [deep.account_id, deep.at],
    )
    const posted = line.rows[0]
    if (posted === undefined)
      throw new Error(`the account of rank ${rank} was never charged before ${deep.at.toISOString()}`)
    samples.push({
      key,
      requestIds: rows.map(({ request_id }) => request_id),
      deepRequest: cursor(`${deep.at.getTime()}:${deep.request_id}`),
      deepLine: cursor(`${posted.at.getTime()}.${posted.id}`),
    })
  }
  return samples
}

function cursor(text: string): string {
  return Buffer.from(text).toString('base64url')
}

/** The 95th percentile of each read in milliseconds, by name; one of ten reads is of the busiest account. */
export async function measureReads(
  server: BenchServer,
  samples: readonly Sample[],
  rounds: number,
): Promise<Map<string, number>> {
  const p95 = new Map<string, number>()
  for (const { name, send } of reads) {
    const took: number[] = []
    for (let n = -1; n < rounds; n += 1) {
      for (const sample of samples) {
        const { method, path, body } = send(sample, n + 1)
        const startedAt = performance.now()
        const reply = await call(server.url, sample.key, method, path, body)
        if (reply.status !== 200) throw new Error(`${name}: ${reply.status} ${JSON.stringify(reply.body)}`)
        // The first round warms up.
        if (n >= 0) took.push(performance.now() - startedAt)
      }
    }
    p95.set(name, percentile(took, 0.95))
  }
  return p95
}
