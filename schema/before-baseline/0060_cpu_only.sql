-- A rental whose GPUs are taken can start without them, to reach its files: at a price of its own, and with a small part of
-- its host. Its GPUs are neither claimed nor counted.

alter table rental
  -- What it costs while it starts and runs without its GPUs, as shown when that was asked for. null: it has its GPUs.
  add column cpu_nano_per_hour bigint check (cpu_nano_per_hour >= 0);

-- A segment in which the rental ran without its GPUs.
alter table segment add column without_gpus boolean not null default false;

drop index rental_living;
create index rental_living on rental (account_id) include (gpu_count, cpu_nano_per_hour)
  where status in ('Pending', 'Running', 'Unknown', 'Stopping', 'Stopped', 'Starting');
create index rental_without_gpus on rental ((spec -> 'nodes' -> 0 ->> 'machineId'))
  where cpu_nano_per_hour is not null and released_at is null;

-- Neither a stopped rental nor one without its GPUs uses any.
create function gpus_in_use(p_account text) returns integer language sql stable as $$
  select coalesce(sum(r.gpu_count), 0)::integer from rental r
  where r.account_id = p_account and r.status in ('Pending', 'Running', 'Unknown', 'Stopping', 'Starting')
    and r.cpu_nano_per_hour is null
$$;

-- Whether a machine can run one more rental without GPUs: as many as it has GPUs, since each takes from the CPUs and the
-- memory of the others. Locks the machine.
create function has_room_without_gpus(p_machine text) returns boolean language plpgsql as $$
declare
  v_gpus integer;
begin
  select gpus_total into v_gpus from machine where id = p_machine and status = 'node_ready' for update;
  return v_gpus > (select count(*) from rental r
                   where r.spec -> 'nodes' -> 0 ->> 'machineId' = p_machine and r.cpu_nano_per_hour is not null
                     and r.released_at is null);
end $$;

-- As before (schema/0023_power.sql), without the GPUs of rentals that run without them.
create or replace function lock_order_facts(p_account text, p_key text, p_at timestamptz)
returns table (quota jsonb, gpus_in_use integer, ssh_keys text[], key_budget bigint) language plpgsql as $$
begin
  perform 1 from ledger_account l where l.account_id = p_account order by l.id for update;
  return query select
    a.quota,
    gpus_in_use(p_account),
    (select coalesce(array_agg(s.public_key order by s.created_at, s.id), '{}') from ssh_key s where s.account_id = p_account),
    key_allowance(p_account, p_key, p_at)
  from account a where a.id = p_account;
end $$;

-- As before (schema/0055_order_batches.sql), likewise.
create or replace function place_orders(p_orders jsonb, p_at timestamptz)
returns table (n integer, rental_id integer, name text) language plpgsql
set plan_cache_mode = 'force_generic_plan'
-- A plan is kept for the life of a connection and may be made while a table is still small.
set enable_seqscan = 'off' as $$
#variable_conflict use_column
declare
  v_orders batched_order[];
  v_month  date := date_trunc('month', p_at at time zone 'UTC')::date;
  v_rows   integer;
begin
  select array_agg(o) into v_orders from jsonb_populate_recordset(null::batched_order, p_orders) o;
  if exists (select 1 from unnest(v_orders) o having count(distinct o.machine_id) < count(*)) then
    raise exception 'the orders of a batch have a machine in common';
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
    where o.account_id in (select held.account_id from held group by 1 having count(*) = 2)
      and o.machine_id in (select offered.id from offered);
  if v_orders is null then return; end if;

  -- Under the locks, and so in a statement of its own.
  with payer as materialized (
    select a.id, a.quota, l.balance_nano,
      (select coalesce(array_agg(k.public_key order by k.created_at, k.id), '{}') from ssh_key k
       where k.account_id = a.id) as ssh_keys,
      gpus_in_use(a.id) as gpus
    from ledger_account l
    join account a on a.id = l.account_id
    where l.account_id = any (array(select o.account_id from unnest(v_orders) o)) and l.kind = 'available'
      and not exists (select 1 from budget b where b.account_id = a.id and b.action <> 'alert'
                      and b.month = v_month and b.exceeded_at is not null)
  )
  select array_agg((o.n, nextval('rental_id_seq'), o.account_id, o.person_id, o.api_key_id, o.machine_id, o.cluster_name,
      o.driver, o.region, o.gpu_type, o.network_type, o.gpus, o.price_nano, o.cost_nano_per_hour, o.hold_nano, o.disk_gb,
      o.default_gpu_quota, o.needs_ssh_key,
      array[case when exists (select 1 from rental r where r.name = o.names[1]) then o.names[2] else o.names[1] end],
      o.label, o.spec || jsonb_build_object('sshKeys', a.ssh_keys), o.auto_terminate_at, o.spending_limit_nano
    )::batched_order)
    into v_orders
    from (
      select o.*, sum(o.hold_nano) over so_far as holds_nano, sum(o.gpus) over so_far as all_gpus
      from unnest(v_orders) o window so_far as (partition by o.account_id order by o.n)
    ) o
    join payer a on a.id = o.account_id
    join machine m on m.id = o.machine_id
    where o.holds_nano <= a.balance_nano
      and m.gpus_free >= o.gpus
      and m.price_nano_per_gpu_hour = o.price_nano
      and m.disk_claimed_gb + o.disk_gb <= (m.hardware ->> 'storageGb')::double precision
      and (a.ssh_keys <> '{}' or not o.needs_ssh_key)
      and o.all_gpus + a.gpus <= coalesce((a.quota ->> 'gpus')::integer, o.default_gpu_quota)
      and not exists (select 1 from api_key k where k.public_id = o.api_key_id
                      and num_nonnulls(k.total_limit_nano, k.monthly_limit_nano) > 0);
  if v_orders is null then return; end if;

  with posted as (
    insert into posting (key, kind, at, account_id, memo)
      select 'rental:' || o.rental_id || ':hold', 'hold', p_at, o.account_id,
        'Set aside for the first hour of rental ' || o.rental_id
      from unnest(v_orders) o where o.hold_nano > 0
      returning id, key
  )
  insert into transfer (posting_id, from_id, to_id, amount_nano)
    select posted.id, f.id, t.id, o.hold_nano
    from posted
    join unnest(v_orders) o on 'rental:' || o.rental_id || ':hold' = posted.key
    join ledger_account f on f.account_id = o.account_id and f.kind = 'available'
    join ledger_account t on t.account_id = o.account_id and t.kind = 'held';
  update ledger_account l
    set balance_nano = l.balance_nano + case l.kind when 'available' then -o.hold_nano else o.hold_nano end
    from (select account_id, sum(hold_nano)::bigint as hold_nano from unnest(v_orders) group by 1) o
    where l.account_id = o.account_id and l.kind in ('available', 'held') and o.hold_nano > 0;
  insert into hold (key, account_id, amount_nano, created_at)
    select 'rental:' || o.rental_id, o.account_id, o.hold_nano, p_at from unnest(v_orders) o;

  -- Here and not as a setting of the function, which only a superuser may give it.
  perform set_config('berth.counts_disks', 'itself', true);
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
  perform set_config('berth.counts_disks', '', true);
  if v_rows <> cardinality(v_orders) then raise exception 'a machine has fewer free GPUs than it counts'; end if;
  update machine m
    set gpus_claimed = m.gpus_claimed + o.gpus, gpus_free = m.gpus_free - o.gpus,
      disk_claimed_gb = m.disk_claimed_gb + disk_gb(o.spec)
    from unnest(v_orders) o where m.id = o.machine_id;
  insert into term (rental_id, n, term_type, effective_at, cost_nano_per_hour)
    select o.rental_id, 1, 'on-demand', p_at, o.cost_nano_per_hour from unnest(v_orders) o;
  return query select o.n, o.rental_id, o.names[1] from unnest(v_orders) o;
end $$;
