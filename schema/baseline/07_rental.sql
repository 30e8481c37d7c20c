-- Rentals of all three kinds, with their terms and what belongs to one rental. A marketplace instance is a rental of kind
-- 'container'.

create table rental (
  id                     integer generated always as identity primary key,
  account_id             text not null references account,
  person_id              text not null references person,
  -- The key that ordered it: its spending limits count this rental.
  api_key_id             text references api_key,
  kind                   text not null check (kind in ('virtual-machine', 'bare-metal', 'container')),
  name                   text not null unique,
  -- The interface gives labels no length, so the limit is where no client meets it.
  label                  text check (length(label) <= 4096),
  region                 text not null,
  cluster_name           text not null,
  gpu_type               text check (gpu_type in ('h100', 'h200', 'b200')),
  gpu_count              integer not null check (gpu_count >= 1),
  network_type           text not null check (network_type in ('infiniband', 'ethernet')),
  driver                 text not null,
  -- The request to the engine: machines, GPU indexes, image, ports, SSH keys … (domain/rental.ts, EngineSpec).
  spec                   jsonb not null,
  -- An object that a client of the marketplace keeps with an instance and reads back in the list. Berth does not use it.
  user_metadata          jsonb not null default '{}' check (jsonb_typeof(user_metadata) = 'object'),
  -- Names of the secrets that its options refer to: they cannot be deleted while it exists.
  secret_names           text[] not null default '{}',
  convert_on_expiry      boolean,
  monitoring_enabled     boolean,
  auto_terminate_at      timestamptz(3),
  spending_limit_nano    bigint check (spending_limit_nano >= 0),
  -- When it is stopped, with its disk kept. null: never.
  stop_at                timestamptz(3),
  -- The rule for a machine that nobody uses (IdleRule). null: none.
  idle                   jsonb check (jsonb_typeof(idle) = 'object'),

  status                 text not null default 'Pending' check (status in ('Pending', 'Running', 'Unknown', 'Stopping',
                         'Stopped', 'Starting', 'Failed', 'Terminating', 'Terminated')),
  -- Why it is Failed, Terminating or Terminated, as a snake_case word. null: no particular reason.
  status_reason          text,
  -- The customer's words on ending it.
  termination_note       text,
  status_since           timestamptz(3) not null,
  -- When the state had lasted longer than it should. null: it has not.
  stuck_at               timestamptz(3),
  created_at             timestamptz(3) not null,
  updated_at             timestamptz(3),
  started_at             timestamptz(3),
  terminate_requested_at timestamptz(3),
  terminated_at          timestamptz(3),

  -- A stopped rental keeps its disk on its machine and gives its GPUs back; only the disk is charged. If its GPUs are
  -- taken, it waits for them or starts without them, to reach its files, with a small part of its host.
  -- Since when it waits for free GPUs on its machine. null: it does not.
  start_requested_at     timestamptz(3),
  -- The price of its disk while it is stopped, as shown when the stop was requested. null: it was never stopped.
  stopped_nano_per_hour  bigint check (stopped_nano_per_hour >= 0),
  -- How many reboots were requested, and how many of them the engine has accepted.
  reboots                integer not null default 0,
  reboots_done           integer not null default 0,
  -- Its price while it starts and runs without its GPUs, as shown when that was requested. null: it has its GPUs.
  cpu_nano_per_hour      bigint check (cpu_nano_per_hour >= 0),

  -- The tag contains it: ids come back when a database is restored from a backup, tags must not.
  nonce                  text not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 8),
  -- The engine's own id. null: it has not answered yet.
  external_id            text,
  provider_data          jsonb,
  -- When the engine was told to create it. With external_id null the outcome is unknown, and only a list by tag tells.
  create_asked_at        timestamptz(3),
  destroy_asked_at       timestamptz(3),
  -- When the engine last showed it running.
  seen_at                timestamptz(3),
  -- Since when the engine's list leaves it out. null: it was there at the last look, or was never requested.
  missing_since          timestamptz(3),
  -- The run of it that was last seen. When another one is seen after a time in which nothing was known, it stood still
  -- meanwhile, and that time costs nothing. null: the engine does not distinguish runs.
  incarnation            text,
  -- Machines and offers whose engine had no capacity when it was told to create this rental: they are not tried again.
  refused_by             text[] not null default '{}',
  -- When the engine had shown it gone and its GPUs went back on sale. null: not yet.
  released_at            timestamptz(3),

  -- The reconcilers' claim on this row: who works on it until when, and when the next step is due.
  due_at                 timestamptz(3) not null,
  attempts               integer not null default 0,
  lease_token            uuid,
  lease_until            timestamptz(3),
  -- Why the last call to its engine failed, for operators; customers never see it, since an engine's words may name hosts
  -- and paths. null: the last call succeeded, or there was none.
  last_error             text check (length(last_error) <= 500),
  last_error_at          timestamptz(3),

  constraint running_has_started check (status <> 'Running' or started_at is not null),
  constraint ended_is_released check (status <> 'Terminated' or (terminated_at is not null and released_at is not null)),
  constraint ending_was_asked check (status not in ('Terminating', 'Terminated') or terminate_requested_at is not null),
  constraint v2_has_gpu_type check (kind = 'container' or gpu_type is not null)
);
create index rental_by_account on rental (account_id, kind, id);
create index rental_living on rental (account_id) include (gpu_count, cpu_nano_per_hour)
  where status in ('Pending', 'Running', 'Unknown', 'Stopping', 'Stopped', 'Starting');
create index rental_alive on rental (driver, id) where released_at is null;
create index rental_ending on rental (auto_terminate_at) where auto_terminate_at is not null
  and status in ('Pending', 'Running', 'Unknown', 'Stopping', 'Stopped', 'Starting');
-- Only a running rental stops at its time; those that have ended are many.
create index rental_stop_at on rental (stop_at) where stop_at is not null and status = 'Running';
create index rental_waiting on rental (start_requested_at) where start_requested_at is not null;
create index rental_without_gpus on rental ((spec -> 'nodes' -> 0 ->> 'machineId'))
  where cpu_nano_per_hour is not null and released_at is null;
-- Rentals in a state that they leave by themselves: few, however many have ended or run.
create index rental_passing on rental (status, status_since)
  where status in ('Pending', 'Unknown', 'Starting', 'Stopping', 'Failed', 'Terminating') and released_at is null and stuck_at is null;
-- The work of the reconcilers, which is little at any moment. Rentals of an engine that no server has stay due: a server
-- passes over them in the index, without reading their rows.
create index rental_to_create on rental (due_at, driver)
  where status = 'Pending' and external_id is null and released_at is null;
create index rental_to_destroy on rental (due_at)
  where status in ('Terminating', 'Failed') and released_at is null and external_id is not null;
create index rental_to_power on rental (due_at)
  where status in ('Stopping', 'Starting') or status = 'Running' and reboots > reboots_done;

-- The price of a rental from an instant on. The last term is the current one.
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
  -- How many days before the end of the term its customer was last told. null: not told yet.
  warned_days         smallint,
  -- Only the current term of a living rental can expire. The `retention` loop closes the others, and the index by which
  -- `expire-terms` finds its work leaves them out: after years they are many.
  closed              boolean not null default false,
  primary key (rental_id, n),
  constraint only_reserved_is_bound check (
    (term_type = 'reserved') = (reservation_ends_at is not null)
    and (term_type = 'reserved') = (term_period_days is not null)
    and (term_type = 'reserved') = (discount_percentage is not null)
    and (term_type = 'reserved') = (original_cost_nano is not null))
);
create index term_open_by_end on term (reservation_ends_at) where reservation_ends_at is not null and not closed;

-- A reserved term is a commitment: the price of the whole term is set aside with the order, charges are drawn from it,
-- and ending early re-rates the time used.
create table commitment (
  rental_id        integer primary key references rental,
  -- The price of the whole term: the hold at the order, and the most that the term can cost.
  total_nano       bigint not null check (total_nano >= 0),
  -- Price per hour of the time used when the rental ends after so many full days, ascending from day 0 (on demand):
  -- [{"days": 0, "nanoPerHour": "2490000000"}, …]. Fixed at the order: later price changes do not affect it.
  rates            jsonb not null,
  -- When the term was over: completed, ended early, or failed. null: it runs, and its hold is total less charges.
  closed_at        timestamptz(3),
  -- Price per hour at which the time used was rated when it closed.
  closed_rate_nano bigint,
  -- It ended because of the machine, its host or the operator: the time used keeps the price of the term.
  at_fault         boolean not null default false,
  -- The amount charged on top of the segments because the rental ended early, and the supplier's share of that.
  rerated_nano     bigint not null default 0 check (rerated_nano >= 0),
  supplier_nano    bigint not null default 0 check (supplier_nano >= 0),
  check ((closed_at is null) = (closed_rate_nano is null))
);

-- The last output of a machine that is gone, sealed. Rows are deleted after thirty days.
create table rental_log (
  rental_id  integer primary key references rental,
  sealed     text not null,
  created_at timestamptz(3) not null
);
create index rental_log_by_age on rental_log (created_at);

-- Idle detection (domain/idle.ts), for rentals with a rule.
create table rental_idle (
  rental_id   integer primary key references rental,
  -- Since when every sample was idle. null: it is in use.
  idle_since  timestamptz(3),
  -- The last sample that was considered.
  seen_until  timestamptz(3),
  -- When the customer was told. null: not in this period of idleness.
  notified_at timestamptz(3)
);

-- HTTP ports of rentals, which the server forwards to, are part of rental.spec (WorkloadSpec.ports). A program has a
-- token for one port. The token is shown once; only its hash is here.
create table port_token (
  id         text primary key,
  rental_id  integer not null references rental,
  port       integer not null check (port between 1 and 65535),
  name       text not null check (length(name) between 1 and 255),
  token_hash bytea not null unique check (length(token_hash) = 32),
  last4      text not null,
  -- The person who created it.
  person_id  text not null references person,
  created_at timestamptz(3) not null,
  -- null: it is valid until it is revoked or the rental ends.
  expires_at timestamptz(3)
);
create index port_token_by_port on port_token (rental_id, port);

-- Codes that a browser exchanges, once and within a minute, for a cookie of a port. They are deleted when they are used.
create table port_code (
  code_hash  bytea primary key check (length(code_hash) = 32),
  rental_id  integer not null references rental,
  port       integer not null,
  -- The cookie is valid while this key is.
  api_key_id text not null references api_key on delete cascade,
  expires_at timestamptz(3) not null
);
create index port_code_by_end on port_code (expires_at);

-- The last result of each health check. It counts only if it is younger than the state of the rental.
create table port_health (
  rental_id  integer not null references rental,
  port       integer not null,
  healthy    boolean not null,
  checked_at timestamptz(3) not null,
  primary key (rental_id, port)
);
