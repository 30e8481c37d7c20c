-- Orders. They are on the way of every create, so each is one or two functions: their plans are kept, and they cost one
-- round trip each.

-- The facts that an order is checked against, read under the lock of the account's balances: from here on other orders of
-- the account wait.
create function lock_order_facts(p_account text, p_key text, p_at timestamptz)
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

-- Writes an order: the rental as Pending, its first term, the money for its first hour and its GPUs, or none of it. Places
-- are tried in their order, each whole or not at all. It waits for a machine only if no other place has room: orders that
-- arrive together are all given the same places, the fullest machine first, and would take turns there until each has
-- committed. Returns 'written' with the rental, 'insufficient' or 'no_place'; after the latter two the caller rolls back.
create function write_order(
  p_rental jsonb, p_names text[], p_term jsonb, p_hold_nano bigint, p_places jsonb, p_at timestamptz
) returns table (outcome text, rental rental) language plpgsql as $$
declare
  v_id      integer := nextval(pg_get_serial_sequence('rental', 'id'));
  v_rental  rental;
  v_name    text;
  v_place   jsonb;
  v_machine jsonb;
  v_indexes integer[];
  v_nodes   jsonb;
  v_disk_gb double precision := coalesce((p_rental #>> '{spec,resources,storageGb}')::double precision, 0);
begin
  if p_hold_nano = 0 then
    insert into hold (key, account_id, amount_nano, created_at) values ('rental:' || v_id, p_rental ->> 'account_id', 0, p_at);
  elsif ledger_hold('rental:' || v_id || ':hold', 'rental:' || v_id, p_at, p_rental ->> 'account_id', p_hold_nano,
                    'Set aside for the first hour of rental ' || v_id, null) = 'insufficient' then
    return query select 'insufficient'::text, v_rental;
    return;
  end if;

  -- One place leaves no choice.
  for v_round in case when jsonb_array_length(p_places) = 1 then 2 else 1 end .. 2 loop
    for v_place in select value from jsonb_array_elements(p_places) loop
      v_nodes := '[]';
      for v_machine in select value from jsonb_array_elements(v_place -> 'machines') loop
        v_indexes := case v_round
          when 1 then try_claim_share(v_machine ->> 'machineId', (v_machine ->> 'gpus')::integer, v_disk_gb, v_id, p_at)
          else claim_share(v_machine ->> 'machineId', (v_machine ->> 'gpus')::integer, v_disk_gb, v_id, p_at)
        end;
        exit when v_indexes is null;
        v_nodes := v_nodes || jsonb_build_object('machineId', v_machine ->> 'machineId', 'gpuIndexes', v_indexes);
      end loop;
      exit when v_indexes is not null;
      if v_nodes <> '[]' then perform release_gpus(v_id); end if;
    end loop;
    exit when v_indexes is not null;
  end loop;
  if v_indexes is null then
    return query select 'no_place'::text, v_rental;
    return;
  end if;

  foreach v_name in array p_names loop
    insert into rental (id, account_id, person_id, api_key_id, kind, name, label, region, cluster_name, gpu_type, gpu_count,
        network_type, driver, spec, convert_on_expiry, monitoring_enabled, auto_terminate_at, spending_limit_nano,
        status_since, created_at, due_at)
      overriding system value
      select v_id, r.account_id, r.person_id, r.api_key_id, r.kind, v_name, r.label, r.region, v_place ->> 'clusterName',
        r.gpu_type, r.gpu_count, r.network_type, r.driver,
        r.spec || jsonb_build_object('name', v_name, 'clusterName', v_place ->> 'clusterName', 'nodes', v_nodes),
        r.convert_on_expiry, r.monitoring_enabled, r.auto_terminate_at, r.spending_limit_nano, p_at, p_at, p_at
      from jsonb_populate_record(null::rental, p_rental) r
      on conflict (name) do nothing
      returning * into v_rental;
    exit when v_rental.id is not null;
  end loop;
  if v_rental.id is null then raise exception 'none of % names is free', cardinality(p_names); end if;
  insert into term (rental_id, n, term_type, effective_at, cost_nano_per_hour, reservation_ends_at, term_period_days,
      discount_percentage, original_cost_nano)
    select v_id, 1, t.term_type, t.effective_at, t.cost_nano_per_hour, t.reservation_ends_at, t.term_period_days,
      t.discount_percentage, t.original_cost_nano
    from jsonb_populate_record(null::term, p_term) t;
  return query select 'written'::text, v_rental;
end $$;

-- Orders in batches. One order costs PostgreSQL some forty statements, most of whose time is their start: each reads the
-- check constraints of its table again, and a server waits for seven answers. A batch runs each statement once for all of
-- its orders. Here is one order for GPUs of one machine, on demand, with everything that it needs.
create type batched_order as (
  -- Its position in the batch.
  n                   integer,
  -- place_orders sets it.
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
  -- The machine's price per GPU-hour that the order was placed at.
  price_nano          bigint,
  cost_nano_per_hour  bigint,
  hold_nano           bigint,
  disk_gb             double precision,
  -- The quota of accounts without one of their own.
  default_gpu_quota   integer,
  needs_ssh_key       boolean,
  -- Candidates; the order gets the first that is free.
  names               text[],
  label               text,
  spec                jsonb,
  auto_terminate_at   timestamptz(3),
  spending_limit_nano bigint
);

-- Places those orders of the batch that nothing prevents, and leaves the others alone: they are placed one by one, with
-- all checks and their reasons. It writes the same rows as lock_order_facts and write_order. It takes only locks that are
-- free, so a batch waits for no other transaction, and one busy account does not delay the rest. Machines must be
-- different ones; accounts may repeat: each of an account's orders is compared with what the ones before it leave, placed
-- or not.
create function place_orders(p_orders jsonb, p_at timestamptz)
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
