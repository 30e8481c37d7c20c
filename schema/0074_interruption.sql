-- Interruptible rentals cost less, and give their GPUs back after a notice when an order finds no others. The GPUs are
-- promised to that order while they are still in use: they pass from one claim to the next and are never free in between.

alter table machine
  -- The supplier's price for interruptible rentals. null: it has none.
  add column interruptible_nano_per_gpu_hour bigint check (interruptible_nano_per_gpu_hour >= 0),
  -- How long before their end interruptible rentals are told.
  add column interruption_notice_s integer not null default 120 check (interruption_notice_s between 60 and 600),
  add constraint interruptible_costs_less check (interruptible_nano_per_gpu_hour is null
    or coalesce(interruptible_nano_per_gpu_hour < price_nano_per_gpu_hour, false));

alter table rental
  -- The notice of its machine when it was ordered. null: it cannot be interrupted.
  add column interruption_notice_s integer check (interruption_notice_s between 60 and 600),
  -- Whether it starts again when GPUs are free, or ends. null: it cannot be interrupted.
  add column after_interruption text check (after_interruption in ('start', 'terminate')),
  -- When the GPUs that are promised to it should be free; its provider is called after that. null: it has them.
  add column gpus_due_at timestamptz(3),
  add constraint interruptible_says_what_follows check ((interruption_notice_s is null) = (after_interruption is null)),
  add constraint interruptible_is_a_container check (interruption_notice_s is null or kind = 'container'),
  add constraint promised_gpus_come_first check (gpus_due_at is null or create_asked_at is null);
create index rental_awaiting_gpus on rental (id) where gpus_due_at is not null and released_at is null;
create index rental_interruptible on rental ((spec -> 'nodes' -> 0 ->> 'machineId'))
  where interruption_notice_s is not null and released_at is null;

alter table gpu_claim
  -- The rental that has it next. null: it becomes free.
  add column promised_to integer references rental deferrable initially deferred,
  add constraint promised_to_another check (promised_to <> rental_id);
create index gpu_claim_promised on gpu_claim (promised_to) where promised_to is not null;

create table interruption (
  id           bigint generated always as identity primary key,
  rental_id    integer not null references rental,
  machine_id   text not null references machine on delete cascade,
  announced_at timestamptz(3) not null,
  -- Nothing of it is killed before.
  ends_at      timestamptz(3) not null,
  -- It had just started, so the time since then costs nothing.
  is_free      boolean not null,
  -- When its provider had the notice. null: not yet.
  told_at      timestamptz(3),
  -- Until its GPUs are released.
  is_open      boolean not null default true,
  constraint notice_is_given check (ends_at >= announced_at + interval '60 s')
);
create unique index interruption_open on interruption (rental_id) where is_open;
create index interruption_by_machine on interruption (machine_id, announced_at);
create index interruption_due on interruption (ends_at) where is_open;

-- The time that the host writes into the machine. null: no interruption is announced.
alter table workload add column interrupted_at timestamptz(3);

-- Promises a new rental, which has the free GPUs of the machine, as many others as it lacks: those of the interrupted
-- rentals, in their order. The caller has locked these rentals.
create function promise_gpus(p_rental integer, p_machine text, p_interrupted integer[], p_due timestamptz)
returns rental language plpgsql as $$
declare
  v_rental rental;
  v_count  integer;
begin
  perform 1 from machine where id = p_machine for update;
  select r.gpu_count - (select count(*) from gpu_claim c where c.rental_id = r.id) into strict v_count
    from rental r where r.id = p_rental;
  with chosen as (
    select c.gpu_index from gpu_claim c join machine m on m.id = c.machine_id
    where c.machine_id = p_machine and c.rental_id = any (p_interrupted) and c.promised_to is null
      and c.faulty_since is null and c.gpu_index <> all (m.gpus_sick) and c.gpu_index <> all (m.gpus_withdrawn)
    order by array_position(p_interrupted, c.rental_id), c.gpu_index limit v_count
  )
  update gpu_claim c set promised_to = p_rental from chosen where c.machine_id = p_machine and c.gpu_index = chosen.gpu_index;
  if (select count(*) from gpu_claim c where c.promised_to = p_rental) < v_count then
    raise exception 'a GPU broke while it was to be promised' using errcode = 'serialization_failure';
  end if;
  update rental r set gpus_due_at = p_due, spec = jsonb_set(r.spec, '{nodes}', (
      select jsonb_build_array(jsonb_build_object('machineId', p_machine, 'gpuIndexes',
        jsonb_agg(c.gpu_index order by c.gpu_index)))
      from gpu_claim c where p_rental in (c.rental_id, c.promised_to)))
    where r.id = p_rental returning * into v_rental;
  return v_rental;
end $$;

-- As before (schema/baseline/08_claim.sql). What was promised passes on, and what was promised to this rental is no
-- longer.
create or replace function release_gpus(p_rental integer) returns void language plpgsql as $$
declare
  v_machines text[];
  v_counts   integer[];
begin
  perform 1 from machine where id in (
    select machine_id from gpu_claim where rental_id = p_rental
    union all select machine_id from gpu_claim where promised_to = p_rental) order by id for update;
  update gpu_claim set promised_to = null where promised_to = p_rental;
  update interruption set is_open = false where rental_id = p_rental and is_open;
  update gpu_claim set rental_id = promised_to, promised_to = null, faulty_since = null, fault = null
    where rental_id = p_rental and promised_to is not null;
  with gone as (delete from gpu_claim where rental_id = p_rental returning machine_id),
       counted as (select machine_id, count(*)::integer as n from gone group by machine_id)
  select array_agg(machine_id), array_agg(n) into v_machines, v_counts from counted;
  -- Setting what is withdrawn to what it is has what is free counted, now that the claims are gone.
  update machine m set gpus_claimed = m.gpus_claimed - c.n, gpus_withdrawn = m.gpus_withdrawn
    from unnest(v_machines, v_counts) as c (machine_id, n) where m.id = c.machine_id;
end $$;
