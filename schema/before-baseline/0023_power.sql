-- Stop, start and reboot. A stopped rental keeps its disk on its machine and gives its GPUs back; only the disk is
-- charged. Older servers, which still run during an upgrade, neither make nor touch such rentals.

-- Every row that is there fits, which need not be looked up under a lock.
alter table rental drop constraint rental_status_check;
alter table rental add constraint rental_status_check check (status in ('Pending', 'Running', 'Unknown', 'Stopping',
  'Stopped', 'Starting', 'Failed', 'Terminating', 'Terminated')) not valid;

alter table rental
  -- Since when a stopped rental waits for free GPUs on its machine. null: it does not.
  add column start_requested_at timestamptz(3),
  -- What its disk costs while it is stopped, as shown when the stop was asked for. null: it was never stopped.
  add column stopped_nano_per_hour bigint check (stopped_nano_per_hour >= 0),
  -- How many reboots were asked for, and how many of them the engine has taken.
  add column reboots integer not null default 0,
  add column reboots_done integer not null default 0;

-- A segment in which the rental was off: it pays for the disk only.
alter table segment add column while_stopped boolean not null default false;

drop index rental_living;
create index rental_living on rental (account_id) include (gpu_count)
  where status in ('Pending', 'Running', 'Unknown', 'Stopping', 'Stopped', 'Starting');
drop index rental_ending;
create index rental_ending on rental (auto_terminate_at) where auto_terminate_at is not null
  and status in ('Pending', 'Running', 'Unknown', 'Stopping', 'Stopped', 'Starting');
create index rental_to_power on rental (due_at)
  where status in ('Stopping', 'Starting') or status = 'Running' and reboots > reboots_done;
create index rental_waiting on rental (start_requested_at) where start_requested_at is not null;

-- As before (schema/0009_purses.sql), with the new states; the GPUs of a stopped rental are not in use.
create or replace function key_allowance(p_account text, p_key text, p_at timestamptz) returns bigint language sql stable as $$
  select least(
      k.total_limit_nano - (select coalesce(sum(spent_nano), 0) from key_spend where api_key_id = p_key),
      k.monthly_limit_nano - coalesce((select spent_nano from key_spend
        where api_key_id = p_key and month = date_trunc('month', p_at at time zone 'UTC')::date), 0)
    )::bigint
    - (select coalesce(sum(h.amount_nano), 0)::bigint from rental r join hold h on h.key = 'rental:' || r.id
       where r.api_key_id = p_key and r.account_id = p_account
         and r.status in ('Pending', 'Running', 'Unknown', 'Stopping', 'Stopped', 'Starting'))
    - (select coalesce(sum(h.amount_nano), 0)::bigint from volume v join hold h on h.key = 'volume:' || v.id
       where v.api_key_id = p_key and v.account_id = p_account and v.state in ('creating', 'active'))
    - (select coalesce(sum(h.amount_nano), 0)::bigint from purse p join hold h on h.key = p.hold_key
       where p.api_key_id = p_key)
  from api_key k
  where k.public_id = p_key and num_nonnulls(k.total_limit_nano, k.monthly_limit_nano) > 0
$$;

create or replace function lock_order_facts(p_account text, p_key text, p_at timestamptz)
returns table (quota jsonb, gpus_in_use integer, ssh_keys text[], key_budget bigint) language plpgsql as $$
begin
  perform 1 from ledger_account l where l.account_id = p_account order by l.id for update;
  return query select
    a.quota,
    (select coalesce(sum(r.gpu_count), 0)::integer from rental r
     where r.account_id = p_account and r.status in ('Pending', 'Running', 'Unknown', 'Stopping', 'Starting')),
    (select coalesce(array_agg(s.public_key order by s.created_at, s.id), '{}') from ssh_key s where s.account_id = p_account),
    key_allowance(p_account, p_key, p_at)
  from account a where a.id = p_account;
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

-- Hosts: a workload that should be off, with its disk kept, and how often it was rebooted.
alter table workload drop constraint workload_want_check;
alter table workload add constraint workload_want_check check (want in ('run', 'stopped', 'gone'));
alter table workload add column reboots integer not null default 0;
alter table workload_node drop constraint workload_node_state_check;
alter table workload_node add constraint workload_node_state_check
  check (state in ('starting', 'running', 'stopping', 'stopped', 'failed'));

-- The simulated engine: from when on a machine is off (null: it is not), and how often it was rebooted.
alter table mock.machine add column off_at timestamptz(3);
alter table mock.machine add column reboots integer not null default 0;
