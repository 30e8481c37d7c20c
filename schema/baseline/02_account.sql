-- Accounts (organizations) own everything, people are members of accounts, and keys act for them.

create table account (
  id              text primary key check (length(id) between 1 and 50),
  name            text not null check (length(name) between 1 and 255),
  -- The part of a machine's price that the house keeps, in 1/100 %. null: the account supplies no machines.
  platform_fee_bp integer check (platform_fee_bp between 0 and 10000),
  -- It has only the limits that differ from the default quota.
  quota           jsonb not null default '{}',
  -- Since when its keys answer 403. null: it is in good standing.
  suspended_at    timestamptz(3),
  -- The tightest runway warning (24, 6 or 1 hours) since the balance last covered more. null: none.
  runway_warned_h smallint,
  -- Whether the texts of its requests and answers are kept with the request log.
  keeps_bodies    boolean not null default false,
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
  account_id        text not null references account,
  person_id         text not null references person,
  role              text not null check (role in ('owner', 'member', 'viewer')),
  -- This account's name for the person. It does not learn the name that other accounts use.
  name              text check (length(name) <= 255),
  -- Owners add any address as a member, so a member gets email about an account only after confirming it, or where the
  -- operator entered the address. null: not confirmed, and no notification is sent.
  mail_confirmed_at timestamptz(3),
  created_at        timestamptz(3) not null,
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
  -- null: the key has no limit of its own; so too for the limits per minute.
  monthly_limit_nano bigint check (monthly_limit_nano >= 0),
  total_limit_nano   bigint check (total_limit_nano >= 0),
  requests_per_min   integer check (requests_per_min > 0),
  tokens_per_min     integer check (tokens_per_min > 0),
  created_at         timestamptz(3) not null,
  expires_at         timestamptz(3),
  -- It is written in batches, so it may lag by some seconds.
  last_used_at       timestamptz(3),
  revoked_at         timestamptz(3)
);
create index api_key_by_account on api_key (account_id, created_at);

-- Charges for machines and requests that a key started, by UTC month.
create table key_spend (
  api_key_id text not null references api_key,
  month      date not null,
  spent_nano bigint not null default 0 check (spent_nano >= 0),
  primary key (api_key_id, month)
);

-- People who have signed in to the console with a key. The browser has a random token in a cookie; only its hash is here,
-- so a reader of this table cannot sign in as anybody. A session may do what its key may do at that moment.
create table console_session (
  token_hash bytea primary key check (length(token_hash) = 32),
  api_key_id text not null references api_key on delete cascade,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  constraint ends_after_it_began check (expires_at > created_at)
);
create index console_session_by_key on console_session (api_key_id, created_at);
create index console_session_by_end on console_session (expires_at);

create table ssh_key (
  id          text primary key,
  account_id  text not null references account,
  name        text not null check (length(name) between 1 and 255),
  public_key  text not null,
  fingerprint text not null,
  created_at  timestamptz(3) not null,
  unique (account_id, fingerprint)
);

-- Values that options of orders refer to by name.
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
  -- The host of the registry, as image names have it.
  server     text not null,
  username   text not null,
  -- The password, sealed by the vault.
  sealed     text not null,
  created_at timestamptz(3) not null,
  unique (account_id, name)
);

-- The first answer to a create, which a repetition with the same key and body gets again. It is written in the
-- transaction of the create.
create table idempotency (
  account_id      text not null references account,
  key             text not null check (length(key) between 1 and 255),
  operation       text not null,
  body_hash       bytea not null,
  -- It is sealed, since it may contain a secret that is shown once. null only inside the transaction that writes it.
  response_sealed text,
  created_at      timestamptz(3) not null,
  primary key (account_id, key)
);
create index idempotency_by_age on idempotency (created_at);

-- Actions of operators and of the house itself: on whom, and why.
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
create trigger audit_is_append_only before update or delete on audit for each row execute function refuse_change();
