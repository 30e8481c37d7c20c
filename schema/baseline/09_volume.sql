-- Storage volumes. A volume is in one region and can be attached to rentals there.

create table volume (
  id                      integer generated always as identity primary key,
  account_id              text not null references account,
  person_id               text not null references person,
  -- The key that ordered it: its spending limits count this volume.
  api_key_id              text references api_key,
  region                  text not null,
  driver                  text not null,
  label                   text not null,
  size_gb                 integer not null check (size_gb > 0),
  cost_nano_per_hour      bigint not null check (cost_nano_per_hour > 0),
  -- The machine that it was ordered for: a volume on a host's own disk stays there. null: any.
  machine_id              text,
  -- The volume that it starts as a copy of. null: it starts empty.
  copy_of                 integer references volume,
  -- GB in use, as its engine last reported it. null: not known.
  used_gb                 double precision check (used_gb >= 0),
  -- The size that it is growing to, and its price from then on. null: it is not growing.
  grow_to_gb              integer check (grow_to_gb > size_gb),
  grow_cost_nano_per_hour bigint check (grow_cost_nano_per_hour > 0),

  -- `unknown`: the engine no longer shows its data. It costs nothing until it is shown again.
  state                   text not null default 'creating'
                          check (state in ('creating', 'active', 'suspended', 'unknown', 'deleting', 'deleted', 'failed')),
  state_reason            text,
  state_since             timestamptz(3) not null,
  created_at              timestamptz(3) not null,
  updated_at              timestamptz(3),
  started_at              timestamptz(3),
  terminated_at           timestamptz(3),

  -- These are the same as those of rentals (07_rental.sql).
  nonce                   text not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 8),
  external_id             text,
  create_asked_at         timestamptz(3),
  -- The address under which rentals mount it. null: not created yet.
  vip                     text,
  due_at                  timestamptz(3) not null,
  attempts                integer not null default 0,
  lease_token             uuid,
  lease_until             timestamptz(3),
  last_error              text check (length(last_error) <= 500),
  last_error_at           timestamptz(3),
  constraint growth_has_a_price check ((grow_to_gb is null) = (grow_cost_nano_per_hour is null))
);
create index volume_by_account on volume (account_id, id);
create index volume_by_driver on volume (driver, id) where state in ('creating', 'active', 'suspended', 'unknown', 'deleting');
create index volume_due on volume (due_at) where state in ('creating', 'suspended', 'deleting');
create index volume_growing on volume (due_at) where grow_to_gb is not null;

create table attachment (
  volume_id     integer not null references volume,
  rental_id     integer not null references rental,
  -- The folder in the machine. null: the engine decides, or it is a bare disk.
  path          text,
  read_only     boolean not null default false,
  state         text not null default 'attaching' check (state in ('attaching', 'attached', 'detaching')),
  asked_at      timestamptz(3) not null,
  due_at        timestamptz(3) not null,
  attempts      integer not null default 0,
  lease_token   uuid,
  lease_until   timestamptz(3),
  last_error    text check (length(last_error) <= 500),
  last_error_at timestamptz(3),
  primary key (volume_id, rental_id)
);
create index attachment_by_rental on attachment (rental_id);
create index attachment_due on attachment (due_at) where state in ('attaching', 'detaching');
