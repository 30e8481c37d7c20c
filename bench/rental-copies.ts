/**
 * Copies rentals that the API made and the engine runs onto free GPUs of like machines, with everything that belongs to
 * them: claims, terms, holds, postings, segments, events, and the machines of the simulated engine. So a bench can have
 * tens of thousands of them without ordering each. The ledger still verifies, and the bench checks that.
 */
import type pg from 'pg'

/** They are charged once in this time, each at its own moment. */
const SETTLE_SECONDS = 300

/** In one transaction, which keeps the loops of the server waiting for its machines. */
const BATCH = 5_000

/** Until there are `total` rentals. */
export async function copyRentals(client: pg.Client, total: number): Promise<void> {
  const { rows } = await client.query<{ n: number; last: number }>(
    `select count(*)::integer as n, max(id) as last from rental`,
  )
  const { n = 0, last = 0 } = rows[0] ?? {}
  for (let there = n; there < total; there += BATCH) await copyBatch(client, Math.min(BATCH, total - there), last)
  await client.query('vacuum analyze')
}

async function copyBatch(client: pg.Client, wanted: number, lastModel: number): Promise<void> {
  await client.query('begin')
  const made = await client.query(copyTable, [wanted, lastModel])
  if ((made.rowCount ?? 0) < wanted) throw new Error('the simulated fleet is full')
  await client.query('create unique index on bench_copy (id)')
  await client.query('analyze bench_copy, rental, posting, event, mock.machine, gpu_claim')
  for (const statement of statements) await client.query(statement)
  await client.query(
    `update segment s set due_at = clock_timestamp() + c.part * interval '${SETTLE_SECONDS} seconds'
     from (select id, row_number() over (order by id)::double precision / count(*) over () as part from bench_copy) c
     where s.rental_id = c.id`,
  )
  await client.query('commit')
}

/** One row per copy: the rental it is made from, its ids, and its GPU. */
const copyTable = `
  create temporary table bench_copy on commit drop as
  select model.id as model_id, slot.machine_id, slot.gpu_index, slot.cluster_name,
    nextval('rental_id_seq')::integer as id, substr(md5('nonce' || slot.n), 1, 8) as nonce,
    model.name || '-' || currval('rental_id_seq') as name,
    'mock-m-' || substr(md5('machine' || currval('rental_id_seq')), 1, 12) || '-1' as external_id,
    model.external_id as model_external_id, model.account_id, held.amount_nano
  from (
    select m.id as machine_id, i as gpu_index, m.cluster_name, m.region, m.gpu_type, m.network_type,
      row_number() over (order by m.id, i) as n
    from machine m cross join generate_series(0, m.gpus_total - 1) i
    where m.offering = 'virtual-machine' and m.status = 'node_ready' and m.listed and m.gpus_sick = '{}'
      and not exists (select 1 from gpu_claim c where c.machine_id = m.id and c.gpu_index = i)
    limit $1
  ) slot
  join (
    select r.*, row_number() over w - 1 as n, count(*) over (partition by region, gpu_type, network_type) as alike
    from rental r where id <= $2 window w as (partition by region, gpu_type, network_type order by id)
  ) model on model.region = slot.region and model.gpu_type = slot.gpu_type and model.network_type = slot.network_type
    and model.n = slot.n % model.alike
  join posting p on p.key = 'rental:' || model.id || ':hold'
  join transfer held on held.posting_id = p.id`

const spec = `jsonb_build_object('name', c.name, 'clusterName', c.cluster_name,
  'nodes', jsonb_build_array(jsonb_build_object('machineId', c.machine_id, 'gpuIndexes', jsonb_build_array(c.gpu_index))))`

function copyOf(table: string, model: string, changes: string): string {
  return `insert into ${table} overriding system value
    select copy.* from bench_copy c join ${table} o on ${model}
    cross join lateral jsonb_populate_record(null::${table}, to_jsonb(o) || jsonb_build_object(${changes})) copy`
}

const statements = [
  `insert into gpu_claim select machine_id, gpu_index, id, now() from bench_copy`,
  `update machine m set gpus_claimed = gpus_claimed + c.n, gpus_free = gpus_free - c.n
   from (select machine_id, count(*)::integer as n from bench_copy group by 1) c where m.id = c.machine_id`,
  copyOf(
    'rental',
    'o.id = c.model_id',
    `'id', c.id, 'nonce', c.nonce, 'name', c.name, 'cluster_name', c.cluster_name, 'external_id', c.external_id,
     'spec', o.spec || ${spec}, 'provider_data', jsonb_set(o.provider_data, '{externalId}', to_jsonb(c.external_id))`,
  ),
  copyOf('term', 'o.rental_id = c.model_id', `'rental_id', c.id`),
  copyOf(
    'posting',
    `o.key = 'rental:' || c.model_id || ':hold'`,
    `'id', nextval(pg_get_serial_sequence('posting', 'id')), 'key', 'rental:' || c.id || ':hold',
     'memo', 'Set aside for the first hour of rental ' || c.id`,
  ),
  `insert into transfer (posting_id, from_id, to_id, amount_nano)
   select p.id, f.id, t.id, c.amount_nano from bench_copy c join posting p on p.key = 'rental:' || c.id || ':hold'
   join ledger_account f on f.account_id = c.account_id and f.kind = 'available'
   join ledger_account t on t.account_id = c.account_id and t.kind = 'held'`,
  `update ledger_account l set balance_nano = balance_nano + case l.kind when 'available' then -c.nano else c.nano end
   from (select account_id, sum(amount_nano)::bigint as nano from bench_copy group by 1) c
   where l.account_id = c.account_id and l.kind in ('available', 'held')`,
  copyOf('hold', `o.key = 'rental:' || c.model_id`, `'key', 'rental:' || c.id, 'amount_nano', c.amount_nano`),
  copyOf(
    'segment',
    'o.rental_id = c.model_id',
    `'id', nextval(pg_get_serial_sequence('segment', 'id')), 'rental_id', c.id, 'hold_key', 'rental:' || c.id,
     'settled_until', o.started_at, 'settled_nano', 0, 'settlements', 0`,
  ),
  `insert into event (at, account_id, type, subject_kind, subject_id, data)
   select e.at, e.account_id, e.type, e.subject_kind, c.id::text, e.data || jsonb_build_object('name', c.name, 'rentalId', c.id)
   from bench_copy c join event e on e.subject_kind = 'rental' and e.subject_id = c.model_id::text`,
  copyOf(
    'mock.machine',
    'o.external_id = c.model_external_id',
    `'external_id', c.external_id, 'tag', split_part(o.tag, '-', 1) || '-' || split_part(o.tag, '-', 2) || '-' || c.id || '-' || c.nonce,
     'spec', o.spec || ${spec}`,
  ),
]
