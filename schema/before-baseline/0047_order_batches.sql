-- Orders in batches. One order costs PostgreSQL some forty statements, most of whose time is their start: each reads the
-- check constraints of its table again, and a server waits for seven answers. A batch runs each statement once for all of
-- its orders.

-- One order for GPUs of one machine, on demand, with nothing to read but what is here.
create type batched_order as (
  -- Its position in the batch.
  n                   integer,
  -- Set by place_orders.
  rental_id           integer,
  account_id          text,
  person_id           text,
  api_key_id          text,
  machine_id          text,
  cluster_name        text,
  driver              text,
  region              text,
  gpu_type            text,
  network_type        text,
  gpus                integer,
  -- The machine's price per GPU-hour that the order was made with.
  price_nano          bigint,
  cost_nano_per_hour  bigint,
  hold_nano           bigint,
  disk_gb             double precision,
  -- The quota of accounts without one of their own.
  default_gpu_quota   integer,
  needs_ssh_key       boolean,
  -- Candidates; the first that is free.
  names               text[],
  label               text,
  spec                jsonb,
  auto_terminate_at   timestamptz(3),
  spending_limit_nano bigint
);

-- Places those orders of the batch that nothing stands against, and leaves the others alone: they are placed one by one,
-- with all checks and their reasons. What it writes is the same as lock_order_facts and write_order write. It takes only
-- locks that are free, so a batch waits for no other transaction, and one busy account does not delay the rest.
-- Accounts and machines must be different ones: the checks compare each order with what is committed.
create function place_orders(p_orders jsonb, p_at timestamptz)
returns table (n integer, rental_id integer, name text) language plpgsql
-- Plans for one batch suit the next; PostgreSQL would make some of them again each time (0.15 ms for the free GPUs).
set plan_cache_mode = 'force_generic_plan' as $$
#variable_conflict use_column
declare
  v_orders batched_order[];
  v_month  date := date_trunc('month', p_at at time zone 'UTC')::date;
  v_rows   integer;
begin
  select array_agg(o) into v_orders from jsonb_populate_recordset(null::batched_order, p_orders) o;
  if exists (select 1 from unnest(v_orders) o having count(distinct o.account_id) < count(*) or count(distinct o.machine_id) < count(*)) then
    raise exception 'the orders of a batch have an account or a machine in common';
  end if;

  with held as materialized (
    select l.account_id from ledger_account l
    where l.account_id = any (array(select o.account_id from unnest(v_orders) o)) and l.kind in ('available', 'held')
    for update skip locked
  ), offered as materialized (
    select m.id from machine m
    where m.id = any (array(select o.machine_id from unnest(v_orders) o)) and m.status = 'node_ready' and m.listed
    for update skip locked
  )
  select array_agg(o) into v_orders from unnest(v_orders) o
    where (select count(*) from held where held.account_id = o.account_id) = 2
      and exists (select 1 from offered where offered.id = o.machine_id);
  if v_orders is null then return; end if;

  -- Under the locks, and so in a statement of its own.
  select array_agg(jsonb_populate_record(o, jsonb_build_object(
      'rental_id', nextval('rental_id_seq'),
      'names', array[case when exists (select 1 from rental r where r.name = o.names[1]) then o.names[2] else o.names[1] end],
      'spec', o.spec || jsonb_build_object('sshKeys', s.keys))))
    into v_orders
    from unnest(v_orders) o
    join account a on a.id = o.account_id
    join ledger_account l on l.account_id = o.account_id and l.kind = 'available'
    join machine m on m.id = o.machine_id
    cross join lateral (select coalesce(array_agg(k.public_key order by k.created_at, k.id), '{}') as keys
                        from ssh_key k where k.account_id = o.account_id) s
    where l.balance_nano >= o.hold_nano
      and m.gpus_free >= o.gpus
      and m.price_nano_per_gpu_hour = o.price_nano
      and m.disk_claimed_gb + o.disk_gb <= (m.hardware ->> 'storageGb')::double precision
      and (s.keys <> '{}' or not o.needs_ssh_key)
      and o.gpus + (select coalesce(sum(r.gpu_count), 0) from rental r where r.account_id = o.account_id
                    and r.status in ('Pending', 'Running', 'Unknown', 'Stopping', 'Starting'))
          <= coalesce((a.quota ->> 'gpus')::integer, o.default_gpu_quota)
      and not exists (select 1 from api_key k where k.public_id = o.api_key_id
                      and num_nonnulls(k.total_limit_nano, k.monthly_limit_nano) > 0)
      and not exists (select 1 from budget b where b.account_id = o.account_id and b.action <> 'alert'
                      and b.month = v_month and b.exceeded_at is not null);
  if v_orders is null then return; end if;

  with posted as (
    insert into posting (key, kind, at, account_id, memo)
      select 'rental:' || o.rental_id || ':hold', 'hold', p_at, o.account_id,
        'Set aside for the first hour of rental ' || o.rental_id
      from unnest(v_orders) o where o.hold_nano > 0
      returning id, account_id
  )
  insert into transfer (posting_id, from_id, to_id, amount_nano)
    select posted.id, f.id, t.id, o.hold_nano
    from posted
    join unnest(v_orders) o on o.account_id = posted.account_id
    join ledger_account f on f.account_id = o.account_id and f.kind = 'available'
    join ledger_account t on t.account_id = o.account_id and t.kind = 'held';
  update ledger_account l
    set balance_nano = l.balance_nano + case l.kind when 'available' then -o.hold_nano else o.hold_nano end
    from unnest(v_orders) o
    where l.account_id = o.account_id and l.kind in ('available', 'held') and o.hold_nano > 0;
  insert into hold (key, account_id, amount_nano, created_at)
    select 'rental:' || o.rental_id, o.account_id, o.hold_nano, p_at from unnest(v_orders) o;

  with claimed as (
    insert into gpu_claim (machine_id, gpu_index, rental_id, claimed_at)
      select o.machine_id, free.i, o.rental_id, p_at
      from unnest(v_orders) o
      join machine m on m.id = o.machine_id
      cross join lateral (
        select i from generate_series(0, m.gpus_total - 1) i
        where i <> all (m.gpus_sick) and i <> all (m.gpus_withdrawn)
          and not exists (select 1 from gpu_claim c where c.machine_id = m.id and c.gpu_index = i)
        order by i limit o.gpus) free
      returning rental_id, gpu_index
  )
  insert into rental (id, account_id, person_id, api_key_id, kind, name, label, region, cluster_name, gpu_type, gpu_count,
      network_type, driver, spec, auto_terminate_at, spending_limit_nano, status_since, created_at, due_at)
    overriding system value
    select o.rental_id, o.account_id, o.person_id, o.api_key_id, 'container', o.names[1], o.label, o.region, o.cluster_name,
      o.gpu_type, o.gpus, o.network_type, o.driver,
      o.spec || jsonb_build_object('name', o.names[1], 'clusterName', o.cluster_name, 'nodes',
        jsonb_build_array(jsonb_build_object('machineId', o.machine_id, 'gpuIndexes', c.indexes))),
      o.auto_terminate_at, o.spending_limit_nano, p_at, p_at, p_at
    from unnest(v_orders) o
    join (select rental_id, array_agg(gpu_index order by gpu_index) as indexes from claimed group by rental_id) c
      on c.rental_id = o.rental_id and cardinality(c.indexes) = o.gpus;
  get diagnostics v_rows = row_count;
  if v_rows <> cardinality(v_orders) then raise exception 'a machine has fewer free GPUs than it counts'; end if;
  update machine m set gpus_claimed = m.gpus_claimed + o.gpus, gpus_free = m.gpus_free - o.gpus
    from unnest(v_orders) o where m.id = o.machine_id;
  insert into term (rental_id, n, term_type, effective_at, cost_nano_per_hour)
    select o.rental_id, 1, 'on-demand', p_at, o.cost_nano_per_hour from unnest(v_orders) o;
  return query select o.n, o.rental_id, o.names[1] from unnest(v_orders) o;
end $$;

-- The disks of new rentals, counted once per statement. A trigger for certain columns cannot be one per statement, so
-- updates keep theirs (schema/0030_disk_space.sql).
create function count_new_disks() returns trigger language plpgsql as $$
begin
  update machine m set disk_claimed_gb = m.disk_claimed_gb + taken.gb
    from (select machine_id, sum(disk_gb(r.spec)) as gb from added r, machines_of(r.spec) machine_id
          where r.released_at is null group by machine_id) taken
    where m.id = taken.machine_id and taken.gb <> 0;
  return null;
end $$;
drop trigger rental_counts_disk on rental;
create trigger rental_counts_disk after update of spec, released_at on rental
  for each row execute function count_disk();
create trigger new_rental_counts_disk after insert on rental referencing new table as added
  for each statement execute function count_new_disks();

-- As before (schema/0004_rentals.sql), with a plan that is kept: PostgreSQL made that of the free GPUs for every call.
alter function claim_gpus(text, integer, integer, timestamptz) set plan_cache_mode = 'force_generic_plan';
