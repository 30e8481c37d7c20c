-- One function writes every new rental, whether its order comes alone or with others, and returns a reason for each order
-- that it does not place. Before, orders in batches had a function of their own (place_orders with two parameters) and an
-- order alone had two others (write_order, and try_claim_share). Those stay for servers of the version before, which may
-- still run during an upgrade.

-- An order with everything that it needs. Most of PostgreSQL's time for one order is the start of its statements: each
-- reads the check constraints of its table again. A batch runs each statement once for all of its orders.
create type new_order as (
  -- Its position in the batch.
  n                   integer,
  account_id          text,
  person_id           text,
  api_key_id          text,
  kind                text,
  driver              text,
  region              text,
  gpu_type            text,
  gpu_count           integer,
  network_type        text,
  label               text,
  spec                jsonb,
  -- Candidates for its name; it gets the first that is free.
  names               text[],
  -- Machines that serve it together, the best first: [{"clusterName": "a", "machines": [{"machineId": "b", "gpus": 8}]}].
  places              jsonb,
  -- The price per GPU-hour that its only machine must still have. null: its price depends on no machine.
  price_nano          bigint,
  -- numeric, because the price of an absurdly long term is more than 64 bits can hold.
  hold_nano           numeric,
  term_type           text,
  effective_at        timestamptz(3),
  cost_nano_per_hour  bigint,
  reservation_ends_at timestamptz(3),
  term_period_days    numeric,
  discount_percentage numeric,
  original_cost_nano  bigint,
  -- The price of the whole term, and the rates for ending it early. null: on demand.
  commitment_nano     numeric,
  commitment_rates    jsonb,
  -- The quota of accounts without one of their own.
  default_gpu_quota   integer,
  -- 'none': nobody logs in. 'required': the machine is of no use without a key. 'optional': it gets those that there are.
  ssh                 text,
  -- A key for this rental alone, beside those of the account.
  ssh_key             text,
  convert_on_expiry   boolean,
  monitoring_enabled  boolean,
  auto_terminate_at   timestamptz(3),
  spending_limit_nano bigint,
  stop_at             timestamptz(3),
  idle                jsonb,
  secret_names        text[],
  user_metadata       jsonb,
  -- Volumes to attach: [{"volumeId": 1, "path": "/data", "readOnly": false}]. null: none.
  mounts              jsonb
);

create type order_answer as (
  n       integer,
  -- 'placed', 'again' (it has to be placed alone), or why it is not placed.
  outcome text,
  -- The numbers that explain the reason.
  detail  jsonb,
  -- The position of its place among its places.
  place   integer
);

-- The rental of an order that is placed.
create type order_rental as (
  rental_id integer,
  name      text,
  place     jsonb
);

-- The GPUs that an order takes on one machine, in the order of its place.
create type order_claim as (
  rental_id  integer,
  i          integer,
  machine_id text,
  gpus       integer,
  disk_gb    double precision
);

create function has_room(p_machine machine, p_gpus integer, p_disk_gb double precision) returns boolean
language sql stable as $$
  select p_machine.status = 'node_ready' and p_machine.listed and p_machine.gpus_free >= p_gpus
    and p_machine.disk_claimed_gb + p_disk_gb <= (p_machine.hardware ->> 'storageGb')::double precision
$$;

-- Locks those machines of a place that have room. Returns whether that is all of them. Without waiting, a machine that
-- another transaction has locked counts as full.
create function lock_place(p_machines jsonb, p_disk_gb double precision, p_waits boolean) returns boolean
language plpgsql as $$
declare
  v_count integer;
begin
  if p_waits then
    with locked as materialized (
      select m.id from machine m
      join jsonb_to_recordset(p_machines) as c ("machineId" text, gpus integer) on c."machineId" = m.id
      where has_room(m, c.gpus, p_disk_gb) order by m.id for update of m
    )
    select count(*) into v_count from locked;
  else
    with locked as materialized (
      select m.id from machine m
      join jsonb_to_recordset(p_machines) as c ("machineId" text, gpus integer) on c."machineId" = m.id
      where has_room(m, c.gpus, p_disk_gb) order by m.id for update of m skip locked
    )
    select count(*) into v_count from locked;
  end if;
  return v_count = jsonb_array_length(p_machines);
end $$;

-- The position of the first place with room, whose machines are then locked. It waits for a machine only if no other place
-- has room: orders that arrive together are all given the same places, the fullest machine first, and would take turns
-- there until each has committed. null: no place has room.
create function choose_place(p_places jsonb, p_disk_gb double precision) returns integer language plpgsql as $$
declare
  v_count integer := jsonb_array_length(p_places);
begin
  -- One place leaves no choice.
  for v_round in case when v_count = 1 then 2 else 1 end .. 2 loop
    for v_place in 0 .. v_count - 1 loop
      if lock_place(p_places -> v_place -> 'machines', p_disk_gb, v_round = 2) then return v_place; end if;
    end loop;
  end loop;
  return null;
end $$;

-- Places orders: each rental as Pending, with its first term, the money that it holds, its GPUs and its volumes. Of an order
-- that is not placed nothing is written, and the answer says why.
--
-- An order alone waits for its account and for its machine. Orders in a batch (not p_waits) name one machine each, all
-- different ones, and take only locks that are free, so one busy account does not delay the others; 'again' answers those
-- that have to wait, and those that fit only if an order of their account before them is not placed.
create function place_orders(p_orders jsonb, p_at timestamptz, p_waits boolean)
returns table (n integer, outcome text, detail jsonb, rental rental) language plpgsql
set plan_cache_mode = 'force_generic_plan'
-- A plan is kept for the life of a connection and may be made while a table is still small.
set enable_seqscan = 'off' as $$
#variable_conflict use_column
declare
  v_orders          new_order[];
  v_accounts        text[];
  v_machines        text[];
  v_has_commitments boolean;
  v_has_mounts      boolean;
  v_answers         order_answer[];
  v_rentals         order_rental[];
  v_claims          order_claim[];
  v_ssh_keys        jsonb;
  v_month           date := date_trunc('month', p_at at time zone 'UTC')::date;
  v_rows            integer;
begin
  select array_agg(o order by o.n), array_agg(o.account_id), array_agg(o.places #>> '{0,machines,0,machineId}'),
      bool_or(o.commitment_nano is not null), bool_or(o.mounts is not null)
    into v_orders, v_accounts, v_machines, v_has_commitments, v_has_mounts
    from jsonb_populate_recordset(null::new_order, p_orders) o;

  if p_waits then
    -- In this order everywhere: the balances by id, then the credit line.
    perform 1 from ledger_account l where l.account_id = any (v_accounts) order by l.id for update;
    if v_has_commitments then
      perform 1 from credit_line c where c.account_id = any (v_accounts) order by c.account_id for update;
    end if;
  else
    with payer as materialized (
      select l.account_id from ledger_account l
      where l.account_id = any (v_accounts) and l.kind in ('available', 'held')
      for update skip locked
    ), offered as materialized (
      select m.id from machine m
      where m.id = any (v_machines) and m.status = 'node_ready' and m.listed
      for update skip locked
    )
    select array(select payer.account_id from payer group by 1 having count(*) = 2), array(select offered.id from offered)
      into v_accounts, v_machines;
  end if;

  -- Under the locks, and so in a statement of its own. Reasons come in the order of their checks. A reason of an order by
  -- itself is final; one because of the orders of its account before it is not, since those may not be placed.
  with payer as materialized (
    select a.id, a.quota, l.balance_nano, gpus_in_use(a.id) as gpus,
      (select coalesce(array_agg(k.public_key order by k.created_at, k.id), '{}') from ssh_key k
       where k.account_id = a.id) as ssh_keys,
      exists (select 1 from budget b where b.account_id = a.id and b.action <> 'alert'
              and b.month = v_month and b.exceeded_at is not null) as is_over_budget
    from ledger_account l
    join account a on a.id = l.account_id
    where l.account_id = any (v_accounts) and l.kind = 'available'
  )
  select array_agg((o.n, v.outcome,
      case v.outcome
        when 'quota_exceeded' then jsonb_build_object('quota', f.quota, 'used', a.gpus)
        when 'key_spending_limit' then jsonb_build_object('left', f.key_nano::text)
        when 'budget_exceeded' then jsonb_build_object('name', b.name, 'amount', b.amount_nano::text)
      end, 0)::order_answer order by o.n),
      (select jsonb_object_agg(payer.id, payer.ssh_keys) from payer)
    into v_answers, v_ssh_keys
    from (
      select o.*, sum(o.hold_nano) over so_far as holds_nano, sum(o.gpu_count) over so_far as all_gpus
      from unnest(v_orders) o window so_far as (partition by o.account_id order by o.n)
    ) o
    left join payer a on a.id = o.account_id
    left join machine m on not p_waits and m.id = o.places #>> '{0,machines,0,machineId}' and m.id = any (v_machines)
    left join lateral (
      select b.name, b.amount_nano from budget b
      where a.is_over_budget and b.account_id = o.account_id and b.action <> 'alert' and b.month = v_month
        and b.exceeded_at is not null and (b.scope = 'account' or b.scope = 'key' and b.scope_value = o.api_key_id
                                           or b.scope = 'label' and b.scope_value = o.label)
      order by b.amount_nano limit 1
    ) b on true
    cross join lateral (
      select coalesce((a.quota ->> 'gpus')::integer, o.default_gpu_quota) as quota,
        a.balance_nano + case when o.commitment_nano is null then 0 else coalesce((
          select greatest(c.line_nano - c.used_nano, 0) from credit_line c where c.account_id = o.account_id), 0) end as money_nano,
        case when exists (select 1 from api_key k where k.public_id = o.api_key_id
                          and num_nonnulls(k.total_limit_nano, k.monthly_limit_nano) > 0)
          then key_allowance(o.account_id, o.api_key_id, p_at) end as key_nano
    ) f
    cross join lateral (
      select case
        when a.id is null then 'again'
        when a.gpus + o.gpu_count > f.quota then 'quota_exceeded'
        when o.ssh = 'required' and a.ssh_keys = '{}' and o.ssh_key is null then 'no_ssh_key'
        when o.spending_limit_nano < o.commitment_nano then 'limit_below_term'
        when f.key_nano < o.hold_nano then 'key_spending_limit'
        when b.name is not null then 'budget_exceeded'
        when f.money_nano < o.hold_nano then 'insufficient_balance'
        when a.gpus + o.all_gpus > f.quota or f.key_nano < o.holds_nano or f.money_nano < o.holds_nano then 'again'
        when p_waits then 'placed'
        when has_room(m, o.gpu_count, disk_gb(o.spec)) and m.price_nano_per_gpu_hour = o.price_nano then 'placed'
        else 'again'
      end as outcome
    ) v;

  if p_waits then
    for i in 1 .. cardinality(v_answers) loop
      continue when v_answers[i].outcome <> 'placed';
      v_answers[i].place := choose_place(v_orders[i].places, disk_gb(v_orders[i].spec));
      if v_answers[i].place is null then v_answers[i].outcome := 'no_capacity'; end if;
    end loop;
  end if;

  -- From here on v_orders are those that are placed, and v_rentals their rentals, one by one.
  select array_agg(o order by o.n), array_agg((nextval('rental_id_seq'), (
      select c.name from unnest(o.names) with ordinality as c (name, i)
      where not exists (select 1 from rental r where r.name = c.name) order by c.i limit 1),
      o.places -> a.place)::order_rental order by o.n)
    into v_orders, v_rentals
    from unnest(v_orders) o join unnest(v_answers) a on a.n = o.n where a.outcome = 'placed';
  if v_orders is null then
    return query select a.n, a.outcome, a.detail, null::rental from unnest(v_answers) a;
    return;
  end if;
  select array_agg((o.rental_id, c.i, c.machine_id, c.gpus, disk_gb(o.spec))::order_claim) into v_claims
    from rows from (unnest(v_orders), unnest(v_rentals)) o
    cross join lateral rows from (jsonb_to_recordset(o.place -> 'machines') as ("machineId" text, gpus integer))
      with ordinality as c (machine_id, gpus, i);
  if exists (select 1 from unnest(v_claims) c having count(distinct c.machine_id) < count(*)) then
    raise exception 'the orders of a batch have a machine in common';
  end if;

  if v_has_commitments then
    perform draw_credit('draw:' || gen_random_uuid(), needed.account_id, needed.nano, p_at) from (
      select o.account_id, sum(o.hold_nano)::bigint as nano from unnest(v_orders) o
      group by 1 having bool_or(o.commitment_nano is not null)) needed;
  end if;
  with posted as (
    insert into posting (key, kind, at, account_id, memo)
      select 'rental:' || o.rental_id || ':hold', 'hold', p_at, o.account_id,
        'Set aside for the first hour of rental ' || o.rental_id
      from rows from (unnest(v_orders), unnest(v_rentals)) o where o.hold_nano > 0
      returning id, key
  )
  insert into transfer (posting_id, from_id, to_id, amount_nano)
    select posted.id, f.id, t.id, o.hold_nano
    from posted
    join rows from (unnest(v_orders), unnest(v_rentals)) o on 'rental:' || o.rental_id || ':hold' = posted.key
    join ledger_account f on f.account_id = o.account_id and f.kind = 'available'
    join ledger_account t on t.account_id = o.account_id and t.kind = 'held';
  update ledger_account l
    set balance_nano = l.balance_nano + case l.kind when 'available' then -sums.nano else sums.nano end
    from (select o.account_id, sum(o.hold_nano)::bigint as nano from unnest(v_orders) o group by 1) sums
    where l.account_id = sums.account_id and l.kind in ('available', 'held') and sums.nano > 0;
  insert into hold (key, account_id, amount_nano, created_at)
    select 'rental:' || o.rental_id, o.account_id, o.hold_nano, p_at from rows from (unnest(v_orders), unnest(v_rentals)) o;

  -- Here and not as a setting of the function, which only a superuser may give it.
  perform set_config('berth.counts_disks', 'itself', true);
  with claimed as (
    insert into gpu_claim (machine_id, gpu_index, rental_id, claimed_at)
      select c.machine_id, free.i, c.rental_id, p_at
      from unnest(v_claims) c
      join machine m on m.id = c.machine_id
      cross join lateral (
        select i from generate_series(0, m.gpus_total - 1) i
        where i <> all (m.gpus_sick) and i <> all (m.gpus_withdrawn)
          and not exists (select 1 from gpu_claim g where g.machine_id = m.id and g.gpu_index = i)
        order by i limit c.gpus) free
      returning machine_id, gpu_index
  ), node as (
    select c.rental_id, c.i, c.gpus = count(g.gpu_index) as is_complete,
      jsonb_build_object('machineId', c.machine_id, 'gpuIndexes', array_agg(g.gpu_index order by g.gpu_index)) as node
    from unnest(v_claims) c left join claimed g on g.machine_id = c.machine_id
    group by c.rental_id, c.i, c.gpus, c.machine_id
  )
  insert into rental (id, account_id, person_id, api_key_id, kind, name, label, region, cluster_name, gpu_type, gpu_count,
      network_type, driver, spec, convert_on_expiry, monitoring_enabled, auto_terminate_at, spending_limit_nano, stop_at,
      idle, secret_names, user_metadata, status_since, created_at, due_at)
    overriding system value
    select o.rental_id, o.account_id, o.person_id, o.api_key_id, o.kind, o.name, o.label, o.region,
      o.place ->> 'clusterName', o.gpu_type, o.gpu_count, o.network_type, o.driver,
      o.spec || jsonb_build_object('name', o.name, 'clusterName', o.place -> 'clusterName', 'nodes', nodes.nodes,
        'sshKeys', case
          when o.ssh = 'none' then '[]'
          when o.ssh_key is null or v_ssh_keys -> o.account_id ? o.ssh_key then v_ssh_keys -> o.account_id
          else v_ssh_keys -> o.account_id || to_jsonb(o.ssh_key)
        end),
      o.convert_on_expiry, o.monitoring_enabled, o.auto_terminate_at, o.spending_limit_nano, o.stop_at,
      o.idle, coalesce(o.secret_names, '{}'), coalesce(o.user_metadata, '{}'), p_at, p_at, p_at
    from rows from (unnest(v_orders), unnest(v_rentals)) o
    join (select node.rental_id, jsonb_agg(node.node order by node.i) as nodes from node
          group by 1 having bool_and(node.is_complete)) nodes on nodes.rental_id = o.rental_id
    on conflict (name) do nothing;
  get diagnostics v_rows = row_count;
  perform set_config('berth.counts_disks', '', true);
  if v_rows <> cardinality(v_orders) then
    if exists (select 1 from unnest(v_rentals) o join rental r on r.name = o.name and r.id <> o.rental_id) then
      raise exception 'another order took the name meanwhile' using errcode = 'serialization_failure';
    end if;
    raise exception 'a machine has fewer free GPUs than it counts';
  end if;
  update machine m
    set gpus_claimed = m.gpus_claimed + c.gpus, gpus_free = m.gpus_free - c.gpus,
      disk_claimed_gb = m.disk_claimed_gb + c.disk_gb
    from unnest(v_claims) c where m.id = c.machine_id;

  insert into term (rental_id, n, term_type, effective_at, cost_nano_per_hour, reservation_ends_at, term_period_days,
      discount_percentage, original_cost_nano)
    select o.rental_id, 1, o.term_type, o.effective_at, o.cost_nano_per_hour, o.reservation_ends_at, o.term_period_days,
      o.discount_percentage, o.original_cost_nano
    from rows from (unnest(v_orders), unnest(v_rentals)) o;
  if v_has_commitments then
    insert into commitment (rental_id, total_nano, rates)
      select o.rental_id, o.commitment_nano, o.commitment_rates
      from rows from (unnest(v_orders), unnest(v_rentals)) o where o.commitment_nano is not null;
  end if;
  if v_has_mounts then
    insert into attachment (volume_id, rental_id, path, read_only, asked_at, due_at)
      select c."volumeId", o.rental_id, c.path, c."readOnly", p_at, p_at
      from rows from (unnest(v_orders), unnest(v_rentals)) o
      cross join lateral jsonb_to_recordset(o.mounts) as c ("volumeId" integer, path text, "readOnly" boolean)
      order by c."volumeId";
  end if;
  return query select a.n, a.outcome, a.detail, r
    from unnest(v_answers) a
    left join rows from (unnest(v_orders), unnest(v_rentals)) o on o.n = a.n
    left join rental r on r.id = o.rental_id;
end $$;
