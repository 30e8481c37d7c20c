-- Who there is: accounts (organisations) own everything, people are members of accounts, keys act for them.

-- One row: this installation. Its id is part of every tag that we leave at an engine, so that two installations
-- sharing an engine never touch each other's machines.
create table installation (
  only_row   boolean primary key default true check (only_row),
  id         text not null check (id ~ '^[0-9a-z]{6,20}$'),
  -- A known text under the secret key: tells a server that was started with another secret key.
  key_check  text,
  created_at timestamptz(3) not null
);

create table account (
  id              text primary key check (length(id) between 1 and 50),
  name            text not null check (length(name) between 1 and 255),
  -- What of a machine's price the house keeps, in 1/100 %. null: the account supplies no machines.
  platform_fee_bp integer check (platform_fee_bp between 0 and 10000),
  -- Only what differs from the default quota.
  quota           jsonb not null default '{}',
  -- null: in good standing. Else its keys answer 403.
  suspended_at    timestamptz(3),
  -- The tightest runway warning that was raised (24, 6 or 1 hours) since the balance last covered more. null: none.
  runway_warned_h smallint,
  created_at      timestamptz(3) not null
);

create table person (
  id         text primary key check (length(id) between 1 and 50),
  email      text not null unique check (length(email) between 3 and 255),
  name       text check (length(name) <= 255),
  picture    text,
  created_at timestamptz(3) not null
);

create table member (
  account_id text not null references account,
  person_id  text not null references person,
  role       text not null check (role in ('owner', 'member', 'viewer')),
  -- What this account calls the person. What others call them is not this account's to know.
  name       text check (length(name) <= 255),
  created_at timestamptz(3) not null,
  primary key (account_id, person_id)
);

create table api_key (
  public_id          text primary key,
  account_id         text not null references account,
  person_id          text not null references person,
  name               text not null check (length(name) between 1 and 255),
  last4              text not null,
  secret_hash        bytea not null check (length(secret_hash) = 32),
  scopes             text[] not null check (cardinality(scopes) > 0),
  -- null: any model.
  allowed_models     text[],
  -- null: no limit of its own.
  monthly_limit_nano bigint check (monthly_limit_nano >= 0),
  total_limit_nano   bigint check (total_limit_nano >= 0),
  requests_per_min   integer check (requests_per_min > 0),
  created_at         timestamptz(3) not null,
  expires_at         timestamptz(3),
  -- Written in batches, so it may lag by some seconds.
  last_used_at       timestamptz(3),
  revoked_at         timestamptz(3)
);
create index api_key_by_account on api_key (account_id, created_at);

-- What was charged to machines and requests that a key started, by UTC month.
create table key_spend (
  api_key_id text not null references api_key,
  month      date not null,
  spent_nano bigint not null default 0 check (spent_nano >= 0),
  primary key (api_key_id, month)
);

create table ssh_key (
  id          text primary key,
  account_id  text not null references account,
  name        text not null check (length(name) between 1 and 255),
  public_key  text not null,
  fingerprint text not null,
  created_at  timestamptz(3) not null,
  unique (account_id, fingerprint)
);

-- The first answer to a create, given again to the same key and body. Written in the transaction of the create.
create table idempotency (
  account_id text not null references account,
  key        text not null check (length(key) between 1 and 255),
  operation  text not null,
  body_hash  bytea not null,
  -- Sealed, since it may hold a secret that is shown once. null only inside the transaction that writes it.
  response_sealed text,
  created_at timestamptz(3) not null,
  primary key (account_id, key)
);
create index idempotency_by_age on idempotency (created_at);

-- One row a minute and limited subject: how many requests were handed out to servers. Lost in a crash, at no harm.
create unlogged table rate_window (
  subject  text not null,
  minute   timestamptz(3) not null,
  taken    integer not null,
  primary key (subject, minute)
);

-- What operators (and the house itself) did, to whom, and why. Append-only.
create table audit (
  id         bigint generated always as identity primary key,
  at         timestamptz(3) not null,
  actor      text not null,
  action     text not null,
  account_id text references account,
  subject    text,
  reason     text,
  detail     jsonb not null default '{}'
);
create index audit_by_account on audit (account_id, id);

-- The loops that must run on one server at a time take turns here.
create table loop (
  name        text primary key,
  -- When its last good turn began. For `observe:<driver>`: up to when that engine has shown what runs.
  done_at     timestamptz(3),
  lease_token uuid,
  lease_until timestamptz(3)
);
