-- What happened, for customers: listed, followed and pushed. Events of an account are written last in their
-- transaction and under the account's event lock, so that their ids are in the order of their commits and a reader who
-- asks for "after id N" misses nothing.

create table event (
  id           bigint generated always as identity primary key,
  account_id   text not null references account,
  at           timestamptz(3) not null,
  type         text not null,
  subject_kind text not null,
  subject_id   text not null,
  data         jsonb not null
);
create index event_by_account on event (account_id, id);
create index event_by_subject on event (subject_kind, subject_id, id);

create table webhook (
  id            text primary key,
  account_id    text not null references account,
  url           text not null,
  description   text,
  -- null: all types.
  event_types   text[],
  -- Under the secret key. The first signs; the second, while a rotation lasts, signs too.
  secret_sealed text not null,
  old_secret_sealed text,
  old_secret_until timestamptz(3),
  enabled       boolean not null default true,
  -- Why we turned it off. null: the customer did, or it is on.
  disabled_reason text,
  created_at    timestamptz(3) not null,
  updated_at    timestamptz(3)
);
create index webhook_by_account on webhook (account_id);

create table webhook_delivery (
  id           text primary key,
  webhook_id   text not null references webhook on delete cascade,
  event_id     bigint not null references event,
  state        text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
  attempts     integer not null default 0,
  due_at       timestamptz(3) not null,
  -- The endpoint's last answer. null: none came.
  last_status  integer,
  last_error   text,
  last_at      timestamptz(3),
  created_at   timestamptz(3) not null,
  lease_token  uuid,
  lease_until  timestamptz(3),
  -- One event goes to one webhook once; a test or a redelivery makes the row due again.
  unique (webhook_id, event_id)
);
create index webhook_delivery_due on webhook_delivery (due_at) where state = 'pending';
create index webhook_delivery_by_webhook on webhook_delivery (webhook_id, created_at desc, id desc);

-- What one inference request cost. Its sum is posted to the ledger in batches.
create table request_cost (
  request_id    text primary key,
  account_id    text not null references account,
  api_key_id    text references api_key,
  model         text not null,
  at            timestamptz(3) not null,
  cost_nano     bigint not null check (cost_nano >= 0),
  input_units   bigint not null check (input_units >= 0),
  output_units  bigint not null check (output_units >= 0)
);
create index request_cost_by_account on request_cost (account_id, at);
