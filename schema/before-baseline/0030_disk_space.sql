-- Disk space of machines. A rental has its disk from its order until its engine no longer has it, also while it is stopped
-- and its GPUs are rented to others. So free GPUs come with a share of the space that no rental has.

-- The disks of all rentals on the machine, in GB. The trigger below keeps it, also for older servers.
alter table machine add column disk_claimed_gb double precision not null default 0;

create function disk_gb(p_spec jsonb) returns double precision language sql immutable as $$
  select coalesce((p_spec #>> '{resources,storageGb}')::double precision, 0)
$$;

create function machines_of(p_spec jsonb) returns setof text language sql immutable as $$
  select node ->> 'machineId'
  from jsonb_array_elements(case when jsonb_typeof(p_spec -> 'nodes') = 'array' then p_spec -> 'nodes' else '[]' end) node
$$;

update machine m set disk_claimed_gb = taken.gb
  from (select machine_id, sum(disk_gb(r.spec)) as gb from rental r, machines_of(r.spec) machine_id
        where r.released_at is null group by machine_id) taken
  where m.id = taken.machine_id;

-- What a free GPU comes with: its part of the machine, or of what others have left of it.
alter table machine add column disk_gb_per_gpu double precision not null generated always as (
  least((hardware ->> 'storageGb')::double precision / gpus_total,
    greatest(0, (hardware ->> 'storageGb')::double precision - disk_claimed_gb) / greatest(1, gpus_total - gpus_claimed))
) stored;

create function count_disk() returns trigger language plpgsql as $$
declare
  v_change record;
begin
  for v_change in
    select id, sum(gb) as gb from (
      select machines_of(new.spec) as id, disk_gb(new.spec) as gb where new.released_at is null
      union all
      select machines_of(old.spec), -disk_gb(old.spec) where tg_op = 'UPDATE' and old.released_at is null
    ) changed group by id having sum(gb) <> 0 order by id
  loop
    update machine set disk_claimed_gb = disk_claimed_gb + v_change.gb where id = v_change.id;
  end loop;
  return null;
end $$;
create trigger rental_counts_disk after insert or update of spec, released_at on rental
  for each row execute function count_disk();

-- GPUs together with a disk of `p_disk_gb`, or nothing. Locks the machine as claim_gpus does.
create function claim_share(p_machine text, p_count integer, p_disk_gb double precision, p_rental integer, p_at timestamptz)
returns integer[] language plpgsql as $$
begin
  perform 1 from machine where id = p_machine
    and disk_claimed_gb + p_disk_gb <= (hardware ->> 'storageGb')::double precision for update;
  return case when found then claim_gpus(p_machine, p_count, p_rental, p_at) end;
end $$;

-- As before (schema/0004_rentals.sql), with the disk.
create or replace function write_order(
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

  for v_place in select value from jsonb_array_elements(p_places) loop
    v_nodes := '[]';
    for v_machine in select value from jsonb_array_elements(v_place -> 'machines') loop
      v_indexes := claim_share(v_machine ->> 'machineId', (v_machine ->> 'gpus')::integer, v_disk_gb, v_id, p_at);
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
