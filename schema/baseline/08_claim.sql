-- The parts of machines that rentals have: GPUs while they run, and disk space from the order until their engine no longer
-- has them. So a stopped rental keeps its disk while others rent its GPUs, and free GPUs come with a share of the
-- space that no rental has.

-- One row is one claimed GPU: the primary key is the promise that no GPU is sold twice.
create table gpu_claim (
  machine_id text not null references machine,
  gpu_index  integer not null check (gpu_index >= 0),
  -- The reference is checked at the commit: an order claims first and is then written with its claims.
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
-- Claims and releases keep the count themselves; other changes have it counted anew.
create trigger machine_counts_free before insert or update of gpus_total, gpus_sick, gpus_withdrawn on machine
  for each row execute function count_free_gpus();

-- Takes `p_count` healthy free GPUs of one machine, or none. Concurrent claims on one machine queue on its row. The plan
-- is kept: PostgreSQL would plan the search for free GPUs in every call.
create function claim_gpus(p_machine text, p_count integer, p_rental integer, p_at timestamptz) returns integer[]
language plpgsql
set plan_cache_mode = 'force_generic_plan' as $$
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

-- Takes as many GPUs as `p_indexes` has, those first, for a rental whose disk is on the machine. Unlike for new rentals
-- (claim_gpus) the machine need not be on sale, but it must be able to run something. null: too few are free.
create function reclaim_gpus(p_machine text, p_indexes integer[], p_rental integer, p_at timestamptz) returns integer[]
language plpgsql as $$
declare
  v_count integer := cardinality(p_indexes);
  v_free  integer[];
begin
  perform 1 from machine where id = p_machine and status = 'node_ready' for update;
  if not found then return null; end if;
  select array_agg(i order by i) into v_free
    from (select i from machine m, generate_series(0, m.gpus_total - 1) i
          where m.id = p_machine and i <> all (m.gpus_sick) and i <> all (m.gpus_withdrawn)
            and not exists (select 1 from gpu_claim c where c.machine_id = p_machine and c.gpu_index = i)
          order by i <> all (p_indexes), i limit v_count) free;
  if coalesce(cardinality(v_free), 0) < v_count then return null; end if;
  insert into gpu_claim (machine_id, gpu_index, rental_id, claimed_at)
    select p_machine, i, p_rental, p_at from unnest(v_free) i;
  update machine set gpus_claimed = gpus_claimed + v_count, gpus_free = gpus_free - v_count where id = p_machine;
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

create function disk_gb(p_spec jsonb) returns double precision language sql immutable as $$
  select coalesce((p_spec #>> '{resources,storageGb}')::double precision, 0)
$$;

create function machines_of(p_spec jsonb) returns setof text language sql immutable as $$
  select node ->> 'machineId'
  from jsonb_array_elements(case when jsonb_typeof(p_spec -> 'nodes') = 'array' then p_spec -> 'nodes' else '[]' end) node
$$;

-- Takes GPUs together with a disk of `p_disk_gb`, or nothing. Locks the machine as claim_gpus does.
create function claim_share(p_machine text, p_count integer, p_disk_gb double precision, p_rental integer, p_at timestamptz)
returns integer[] language plpgsql as $$
begin
  perform 1 from machine where id = p_machine
    and disk_claimed_gb + p_disk_gb <= (hardware ->> 'storageGb')::double precision for update;
  return case when found then claim_gpus(p_machine, p_count, p_rental, p_at) end;
end $$;

-- Does the same as claim_share, but does not wait: null as well while another transaction has the machine locked.
create function try_claim_share(p_machine text, p_count integer, p_disk_gb double precision, p_rental integer, p_at timestamptz)
returns integer[] language plpgsql as $$
begin
  perform 1 from machine where id = p_machine for update skip locked;
  return case when found then claim_share(p_machine, p_count, p_disk_gb, p_rental, p_at) end;
end $$;

-- The disks of new rentals, counted once per statement. Without the setting PostgreSQL keeps a sequential scan of machines
-- from a time when they were few.
create function count_new_disks() returns trigger language plpgsql set enable_seqscan = 'off' as $$
begin
  update machine m set disk_claimed_gb = m.disk_claimed_gb + taken.gb
    from (select machine_id, sum(disk_gb(r.spec)) as gb from added r, machines_of(r.spec) machine_id
          where r.released_at is null group by machine_id) taken
    where m.id = taken.machine_id and taken.gb <> 0;
  return null;
end $$;
-- place_orders counts the disks itself, in the update that counts the GPUs.
create trigger new_rental_counts_disk after insert on rental referencing new table as added
  for each statement when (current_setting('berth.counts_disks', true) is distinct from 'itself')
  execute function count_new_disks();

-- Updates are counted per row, because a trigger for certain columns cannot be one per statement.
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
create trigger rental_counts_disk after update of spec, released_at on rental
  for each row execute function count_disk();
