/**
 * Fills the tables of settled requests the way settlement leaves them: requests in their week, the sums by day, and one
 * posting for each burst of one account, key and model, with its transfer, balance and spending. SQL writes a day at a
 * time. The ledger still verifies, and the bench checks that.
 */
import type pg from 'pg'
import { parseApiKey } from '../../src/base/api-key.ts'
import { DAY_MS } from '../../src/base/instant.ts'

export const ACCOUNTS = 1_000
/** Requests that one settlement charges together. Steady traffic of one client makes smaller ones, batch jobs larger. */
export const BURST = 10
const WEEK_MS = 7 * DAY_MS
const MODELS = ['small', 'medium', 'large', 'vision']

/** An account that the bench asks for, by its place among the busiest. */
export interface KnownAccount {
  readonly rank: number
  readonly key: string
}

/**
 * Gives every rank from 1 to ACCOUNTS an account with money. The known ones exist; the rest is written here, because no
 * request uses their keys.
 */
export async function fillAccounts(client: pg.Client, known: readonly KnownAccount[]): Promise<void> {
  await client.query(
    `create table bench_account (rank integer primary key, account_id text not null, api_key_id text not null)`,
  )
  const publicIds = known.map(({ key }) => publicIdOf(key))
  await client.query(
    `insert into bench_account select given.rank, k.account_id, k.public_id
     from unnest($1::integer[], $2::text[]) as given (rank, public_id) join api_key k on k.public_id = given.public_id`,
    [known.map(({ rank }) => rank), publicIds],
  )
  await client.query(
    `insert into bench_account select n, 'acc_bench' || lpad(n::text, 18, '0'), 'key' || lpad(n::text, 13, '0')
     from generate_series(1, $1) n where not exists (select 1 from bench_account b where b.rank = n)`,
    [ACCOUNTS],
  )
  await client.query(
    `insert into account (id, name, created_at) select account_id, 'Bench', now() from bench_account on conflict do nothing`,
  )
  await client.query(`insert into person (id, email, created_at) values ('usr_history', 'history@example.test', now())`)
  await client.query(
    `insert into api_key (public_id, account_id, person_id, name, last4, secret_hash, scopes, created_at)
     select api_key_id, account_id, 'usr_history', 'bench', 'abcd', decode(repeat('00', 32), 'hex'), '{inference}', now()
     from bench_account on conflict do nothing`,
  )
  await client.query(
    `select ledger_post('purchase:' || account_id, 'purchase', now(), account_id, 'Purchase', 'bench', 'bench', null, null, null,
       null, array[ledger_account_id(null, 'funding')], array[ledger_account_id(account_id, 'available')], array[100000000000000])
     from bench_account`,
  )
}

function publicIdOf(key: string): string {
  const parsed = parseApiKey(key)
  if (parsed.kind !== 'key') throw new Error('not an API key')
  return parsed.key.publicId
}

/** As many as the default retention has, empty or not: planning a query looks at each. */
export async function makePartitions(client: pg.Client, now: number, days: number): Promise<void> {
  for (let at = now - days * DAY_MS; at < now + WEEK_MS; at += WEEK_MS) {
    await client.query('select make_request_partitions($1)', [new Date(at)])
  }
}

/** Requests of one UTC day that began `daysAgo` days before `today`, in the order of time. */
export async function fillDay(client: pg.Client, today: number, daysAgo: number, requests: number): Promise<void> {
  const from = today - daysAgo * DAY_MS
  await client.query('begin')
  await client.query(dayRows, [from, requests, DAY_MS, daysAgo, ACCOUNTS, MODELS, BURST])
  await client.query(`insert into request select ${requestColumns} from bench_day order by at`)
  await client.query(
    `insert into request_day (account_id, day, api_key_id, model, requests, answered, cost_nano, input_units, cached_units, output_units)
     select account_id, (at at time zone 'UTC')::date, api_key_id, model, count(*), count(*) filter (where outcome = 'answered'),
       sum(cost_nano), sum(input_units), 0, sum(output_units)
     from bench_day group by 1, 2, 3, 4`,
  )
  await client.query(
    `create temporary table bench_burst on commit drop as
     select account_id, api_key_id, model, max(at) as at, count(*) as requests, sum(cost_nano)::bigint as nano,
       'requests:' || min(request_id) as key
     from bench_day group by burst, 1, 2, 3 having sum(cost_nano) > 0`,
  )
  await client.query(
    `insert into posting (key, kind, at, account_id, memo, api_key_id, model)
     select key, 'charge', at, account_id, format('Inference, %s, %s requests', model, requests), api_key_id, model
     from bench_burst order by at`,
  )
  await client.query(
    `insert into transfer (posting_id, from_id, to_id, amount_nano)
     select p.id, own.id, ledger_account_id(null, 'revenue'), b.nano
     from bench_burst b join posting p on p.key = b.key
     join ledger_account own on own.account_id = b.account_id and own.kind = 'available' order by p.id`,
  )
  await client.query(
    `update ledger_account l set balance_nano = balance_nano - spent.nano
     from (select account_id, sum(nano)::bigint as nano from bench_burst group by 1) spent
     where l.account_id = spent.account_id and l.kind = 'available'`,
  )
  await client.query(
    `insert into key_spend (api_key_id, month, spent_nano)
     select api_key_id, date_trunc('month', at at time zone 'UTC')::date, sum(nano)::bigint from bench_burst group by 1, 2
     on conflict (api_key_id, month) do update set spent_nano = key_spend.spent_nano + excluded.spent_nano`,
  )
  await client.query('commit')
}

const requestColumns = `request_id, account_id, api_key_id, operation, model, deployment, at, status, outcome, reason,
  streamed, input_units, cached_units, output_units, cost_nano, first_byte_ms, total_ms, trace_id`

/**
 * The burst decides account and model. Account n gets a share of about 1/n: the busiest a tenth of all requests, the
 * last of a thousand one in seven thousand. One request in a hundred fails and costs nothing.
 */
const dayRows = `
  create temporary table bench_day on commit drop as
  select 'req_' || lpad(to_hex(ms), 12, '0') || substr(md5(n::text || ms::text), 1, 20) as request_id,
    b.account_id, b.api_key_id, 'chat'::text as operation, ($6::text[])[1 + (burst % 4)::integer] as model,
    'dep_000000000000000000001'::text as deployment, to_timestamp(ms / 1000.0)::timestamptz(3) as at,
    (case when fails then 503 else 200 end)::smallint as status,
    case when fails then 'failed' else 'answered' end as outcome, case when fails then 'engine_failed' end as reason,
    n % 2 = 0 as streamed, (case when fails then 0 else 100 + n % 900 end)::bigint as input_units, 0::bigint as cached_units,
    (case when fails then 0 else 50 + n % 400 end)::bigint as output_units,
    (case when fails then 0 else (100 + n % 900) * 100 + (50 + n % 400) * 400 end)::bigint as cost_nano,
    (case when not fails then 40 + n % 300 end)::integer as first_byte_ms, (200 + n % 4000)::integer as total_ms,
    md5(ms::text || n::text) as trace_id, burst
  from (
    select n, n / $7::bigint as burst, $1::bigint + n * $3::bigint / $2::bigint as ms, n % 100 = 37 as fails,
      least($5, floor(exp(ln($5) * ((hashint8extended(n / $7::bigint, $4::bigint) & 4294967295) / 4294967296.0))))::integer as rank
    from generate_series(0, $2::bigint - 1) n
  ) given join bench_account b using (rank)
  order by n`
