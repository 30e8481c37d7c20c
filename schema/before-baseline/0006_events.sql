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

-- Writes events with a delivery for each webhook that wants them; answers how many deliveries there are.
create function write_events(
  p_at timestamptz, p_account text[], p_type text[], p_subject_kind text[], p_subject_id text[], p_data jsonb[]
) returns integer language plpgsql as $$
declare
  v_deliveries integer;
begin
  -- The last lock of a transaction, in a fixed order, so nobody who holds it waits for another.
  perform pg_advisory_xact_lock(hashtextextended('event:' || account, 0))
    from (select distinct account from unnest(p_account) account order by account) accounts;
  with written as (
    insert into event (account_id, at, type, subject_kind, subject_id, data)
    select account_id, p_at, type, subject_kind, subject_id, data
    from unnest(p_account, p_type, p_subject_kind, p_subject_id, p_data)
      with ordinality as given (account_id, type, subject_kind, subject_id, data, n)
    order by n
    returning id, account_id, type, subject_id
  ), delivered as (
    insert into webhook_delivery (id, webhook_id, event_id, due_at, created_at)
    select 'dlv_' || replace(gen_random_uuid()::text, '-', ''), w.id, e.id, p_at, p_at
    from written e join webhook w on w.account_id = e.account_id
    -- A test goes to the webhook that it is about, and to no other.
    where case when e.type = 'webhook.test' then w.id = e.subject_id
               else w.enabled and (w.event_types is null or e.type = any (w.event_types)) end
    returning 1
  )
  select count(*) into v_deliveries from delivered;
  return v_deliveries;
end $$;

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
