-- Rentals of all three kinds. A marketplace instance is a rental of kind 'container'.

create table rental (
  id                     integer generated always as identity primary key,
  account_id             text not null references account,
  person_id              text not null references person,
  -- The key that asked for it: its spending limits count this rental.
  api_key_id             text references api_key,
  kind                   text not null check (kind in ('virtual-machine', 'bare-metal', 'container')),
  name                   text not null unique,
  label                  text check (length(label) <= 255),
  region                 text not null,
  cluster_name           text not null,
  gpu_type               text check (gpu_type in ('h100', 'h200', 'b200')),
  gpu_count              integer not null check (gpu_count >= 1),
  network_type           text not null check (network_type in ('infiniband', 'ethernet')),
  driver                 text not null,
  -- What the engine is asked for: machines, GPU indexes, image, ports, SSH keys … (domain/rental.ts, EngineSpec).
  spec                   jsonb not null,
  -- What the customer asked for beyond the columns here.
  convert_on_expiry      boolean,
  monitoring_enabled     boolean,
  auto_terminate_at      timestamptz(3),
  spending_limit_nano    bigint check (spending_limit_nano >= 0),

  status                 text not null default 'Pending'
                         check (status in ('Pending', 'Running', 'Unknown', 'Failed', 'Terminating', 'Terminated')),
  -- Why it is Failed, Terminating or Terminated, in a snake_case word. null: no particular reason.
  status_reason          text,
  -- What the customer wrote when ending it.
  termination_note       text,
  status_since           timestamptz(3) not null,
  -- Set once the state has lasted longer than it should. null: it has not.
  stuck_at               timestamptz(3),
  created_at             timestamptz(3) not null,
  updated_at             timestamptz(3),
  started_at             timestamptz(3),
  terminate_requested_at timestamptz(3),
  terminated_at          timestamptz(3),

  -- Part of the tag: ids come back when a database is set back to a backup, tags must not.
  nonce                  text not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 8),
  -- The engine's own id. null: it has not answered yet.
  external_id            text,
  provider_data          jsonb,
  -- When the engine was asked to create it. With external_id null the outcome is unknown, and only a list by tag tells.
  create_asked_at        timestamptz(3),
  destroy_asked_at       timestamptz(3),
  -- When the engine last showed it running.
  seen_at                timestamptz(3),
  -- Since when the engine's list leaves it out. null: it was there when we last looked, or was never asked for.
  missing_since          timestamptz(3),
  -- When the engine had shown it gone and its GPUs went back on sale. null: not yet.
  released_at            timestamptz(3),

  -- The reconcilers' claim on this row: who works on it until when, and when the next step is due.
  due_at                 timestamptz(3) not null,
  attempts               integer not null default 0,
  lease_token            uuid,
  lease_until            timestamptz(3),

  constraint running_has_started check (status <> 'Running' or started_at is not null),
  constraint ended_is_released check (status <> 'Terminated' or (terminated_at is not null and released_at is not null)),
  constraint ending_was_asked check (status not in ('Terminating', 'Terminated') or terminate_requested_at is not null),
  constraint v2_has_gpu_type check (kind = 'container' or gpu_type is not null)
);
create index rental_by_account on rental (account_id, kind, id);
create index rental_living on rental (account_id) include (gpu_count) where status in ('Pending', 'Running', 'Unknown');
create index rental_due on rental (due_at) where released_at is null;
create index rental_alive on rental (driver, id) where released_at is null;
create index rental_ending on rental (auto_terminate_at) where auto_terminate_at is not null and status in ('Pending', 'Running', 'Unknown');

-- One row a claimed GPU: the primary key is the promise that no GPU is sold twice.
create table gpu_claim (
  machine_id text not null references machine,
  gpu_index  integer not null check (gpu_index >= 0),
  -- Checked at the commit: an order claims first and is written with what it got.
  rental_id  integer not null references rental deferrable initially deferred,
  claimed_at timestamptz(3) not null,
  primary key (machine_id, gpu_index)
);
create index gpu_claim_by_rental on gpu_claim (rental_id);

create function count_free_gpus() returns trigger language plpgsql as $$
begin
  select count(*) into new.gpus_free from generate_series(0, new.gpus_total - 1) i
    where i <> all (new.gpus_sick) and i <> all (new.gpus_withdrawn)
      and not exists (select 1 from gpu_claim c where c.machine_id = new.id and c.gpu_index = i);
  return new;
end $$;
-- Claims and releases keep the count themselves; what else changes it has it counted anew.
create trigger machine_counts_free before insert or update of gpus_total, gpus_sick, gpus_withdrawn on machine
  for each row execute function count_free_gpus();

-- Takes `p_count` healthy free GPUs of one machine, or none. Concurrent claims on one machine queue on its row.
create function claim_gpus(p_machine text, p_count integer, p_rental integer, p_at timestamptz) returns integer[]
language plpgsql as $$
declare
  v_free integer[];
begin
  perform 1 from machine where id = p_machine and status = 'node_ready' and listed for update;
  if not found then return null; end if;
  select array_agg(i order by i) into v_free
    from (select i from machine m, generate_series(0, m.gpus_total - 1) i
          where m.id = p_machine and i <> all (m.gpus_sick) and i <> all (m.gpus_withdrawn)
            and not exists (select 1 from gpu_claim c where c.machine_id = p_machine and c.gpu_index = i)
          order by i limit p_count) free;
  if coalesce(cardinality(v_free), 0) < p_count then return null; end if;
  insert into gpu_claim (machine_id, gpu_index, rental_id, claimed_at)
    select p_machine, i, p_rental, p_at from unnest(v_free) i;
  update machine set gpus_claimed = gpus_claimed + p_count, gpus_free = gpus_free - p_count where id = p_machine;
  return v_free;
end $$;

create function release_gpus(p_rental integer) returns void language plpgsql as $$
declare
  v_machines text[];
  v_counts   integer[];
begin
  perform 1 from machine where id in (select machine_id from gpu_claim where rental_id = p_rental) order by id for update;
  with gone as (delete from gpu_claim where rental_id = p_rental returning machine_id),
       counted as (select machine_id, count(*)::integer as n from gone group by machine_id)
  select array_agg(machine_id), array_agg(n) into v_machines, v_counts from counted;
  -- Setting what is withdrawn to what it is has what is free counted, now that the claims are gone.
  update machine m set gpus_claimed = m.gpus_claimed - c.n, gpus_withdrawn = m.gpus_withdrawn
    from unnest(v_machines, v_counts) as c (machine_id, n) where m.id = c.machine_id;
end $$;

-- What a rental costs, from when on. The last one counts.
create table term (
  rental_id           integer not null references rental,
  n                   integer not null check (n >= 1),
  term_type           text not null check (term_type in ('on-demand', 'reserved', 'private-cloud')),
  effective_at        timestamptz(3) not null,
  cost_nano_per_hour  bigint not null check (cost_nano_per_hour >= 0),
  reservation_ends_at timestamptz(3),
  term_period_days    numeric,
  discount_percentage numeric(5, 2),
  original_cost_nano  bigint,
  primary key (rental_id, n),
  constraint only_reserved_is_bound check (
    (term_type = 'reserved') = (reservation_ends_at is not null)
    and (term_type = 'reserved') = (term_period_days is not null)
    and (term_type = 'reserved') = (discount_percentage is not null)
    and (term_type = 'reserved') = (original_cost_nano is not null))
);
create index term_by_end on term (reservation_ends_at) where reservation_ends_at is not null;

-- A stretch of time at one price. The stretches of one rental or volume never overlap; together they are its bill.
create table segment (
  id                  bigint generated always as identity primary key,
  account_id          text not null references account,
  rental_id           integer references rental,
  volume_id           integer,
  hold_key            text not null references hold,
  started_at          timestamptz(3) not null,
  -- null: still running.
  ended_at            timestamptz(3),
  price_nano_per_hour bigint not null check (price_nano_per_hour >= 0),
  supplier_id         text references account,
  platform_fee_bp     integer,
  -- High-water marks: charged up to when, how much in all, and how much of it went to the supplier.
  settled_until       timestamptz(3) not null,
  settled_nano        bigint not null default 0 check (settled_nano >= 0),
  supplier_nano       bigint not null default 0 check (supplier_nano >= 0),
  settlements         integer not null default 0,
  -- When the meter should look again.
  due_at              timestamptz(3) not null,
  check (num_nonnulls(rental_id, volume_id) = 1),
  check (ended_at >= started_at),
  check (settled_until >= started_at and (ended_at is null or settled_until <= ended_at)),
  check ((supplier_id is null) = (platform_fee_bp is null)),
  constraint rental_segments_never_overlap exclude using gist
    (int4range(rental_id, rental_id, '[]') with &&, tstzrange(started_at, ended_at) with &&) where (rental_id is not null),
  constraint volume_segments_never_overlap exclude using gist
    (int4range(volume_id, volume_id, '[]') with &&, tstzrange(started_at, ended_at) with &&) where (volume_id is not null)
);
create index segment_by_rental on segment (rental_id) where rental_id is not null;
create index segment_by_volume on segment (volume_id) where volume_id is not null;
create index segment_open on segment (due_at) where ended_at is null;
create index segment_open_by_account on segment (account_id) where ended_at is null;

-- What an order is held against, read under the lock of the account's balances: from here on other orders of the
-- account wait. One function, since it is on the way of every create: its plans are kept, and it costs one round trip.
create function lock_order_facts(p_account text, p_key text, p_at timestamptz)
returns table (quota jsonb, gpus_in_use integer, ssh_keys text[], key_budget bigint) language plpgsql as $$
begin
  perform 1 from ledger_account l where l.account_id = p_account order by l.id for update;
  return query select
    a.quota,
    (select coalesce(sum(r.gpu_count), 0)::integer from rental r
     where r.account_id = p_account and r.status in ('Pending', 'Running', 'Unknown')),
    (select coalesce(array_agg(s.public_key order by s.created_at, s.id), '{}') from ssh_key s where s.account_id = p_account),
    -- null: the key has no limit. What its machines and volumes have set aside counts as spent.
    (select least(
       k.total_limit_nano - (select coalesce(sum(spent_nano), 0) from key_spend where api_key_id = p_key),
       k.monthly_limit_nano - coalesce((select spent_nano from key_spend
         where api_key_id = p_key and month = date_trunc('month', p_at at time zone 'UTC')::date), 0)
     )::bigint - (select coalesce(sum(h.amount_nano), 0)::bigint from rental r join hold h on h.key = 'rental:' || r.id
                  where r.api_key_id = p_key and r.account_id = p_account and r.status in ('Pending', 'Running', 'Unknown'))
       - (select coalesce(sum(h.amount_nano), 0)::bigint from volume v join hold h on h.key = 'volume:' || v.id
          where v.api_key_id = p_key and v.account_id = p_account and v.state in ('creating', 'active'))
     from api_key k where k.public_id = p_key and num_nonnulls(k.total_limit_nano, k.monthly_limit_nano) > 0)
  from account a where a.id = p_account;
end $$;

-- Writes an order down: the rental as Pending, its first term, the money for its first hour and its GPUs, or none of
-- it. Places are tried in their order, each whole or not at all. Answers 'written' with the rental, 'insufficient' or
-- 'no_place'; after the latter two the caller rolls back. One function for the same reasons as lock_order_facts.
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
begin
  if p_hold_nano = 0 then
    insert into hold (key, account_id, amount_nano, created_at) values ('rental:' || v_id, p_rental ->> 'account_id', 0, p_at);
  elsif ledger_hold('rental:' || v_id || ':hold', 'rental:' || v_id, p_at, p_rental ->> 'account_id', p_hold_nano,
                    'Set aside for the first hour of rental ' || v_id, null) = 'insufficient' then
    return query select 'insufficient'::text, v_rental;
    return;
  end if;

  for v_place in select value from jsonb_array_elements(p_places) loop
    v_nodes := '[]';
    for v_machine in select value from jsonb_array_elements(v_place -> 'machines') loop
      v_indexes := claim_gpus(v_machine ->> 'machineId', (v_machine ->> 'gpus')::integer, v_id, p_at);
      exit when v_indexes is null;
      v_nodes := v_nodes || jsonb_build_object('machineId', v_machine ->> 'machineId', 'gpuIndexes', v_indexes);
    end loop;
    exit when v_indexes is not null;
    if v_nodes <> '[]' then perform release_gpus(v_id); end if;
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
