-- Options of orders, and the secrets and registry logins that they refer to. The options themselves are part of
-- rental.spec (EngineSpec.workload). Older servers write rentals without any of these columns.
alter table rental
  -- When it is stopped, with its disk kept. null: never.
  add column stop_at timestamptz(3),
  -- The rule for a machine that nobody uses (IdleRule). null: none.
  add column idle jsonb check (jsonb_typeof(idle) = 'object'),
  -- Names of the secrets that its options refer to: they cannot be deleted while it exists.
  add column secret_names text[] not null default '{}';
create index rental_stop_at on rental (stop_at) where stop_at is not null;

create table secret (
  account_id text not null references account,
  name       text not null check (name ~ '^[A-Za-z_][A-Za-z0-9_-]{0,99}$'),
  -- The value, sealed by the vault. No operation returns it.
  sealed     text not null,
  created_at timestamptz(3) not null,
  updated_at timestamptz(3) not null,
  primary key (account_id, name)
);

-- Logins for private images.
create table registry_credential (
  id         text primary key,
  account_id text not null references account,
  name       text not null,
  -- Host of the registry, as image names have it.
  server     text not null,
  username   text not null,
  -- The password, sealed by the vault.
  sealed     text not null,
  created_at timestamptz(3) not null,
  unique (account_id, name)
);
