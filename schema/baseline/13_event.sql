-- News: events for programs, notifications and email for people.

-- Events are listed, followed and pushed. Those of an account are written last in their transaction and under the
-- account's event lock, so that their ids are in the order of their commits and a reader who asks for "after id N"
-- misses nothing.
create table event (
  id           bigint generated always as identity primary key,
  account_id   text not null references account,
  at           timestamptz(3) not null,
  type         text not null,
  subject_kind text not null,
  subject_id   text not null,
  data         jsonb not null,
  -- The kind of notification that it is. null: it is none.
  notice       text
);
create index event_by_account on event (account_id, id);
create index event_by_subject on event (subject_kind, subject_id, id);

create table webhook (
  id                text primary key,
  account_id        text not null references account,
  url               text not null,
  description       text,
  -- null: all types.
  event_types       text[],
  -- Both are sealed with the secret key. The first signs; the second, while a rotation lasts, signs too.
  secret_sealed     text not null,
  old_secret_sealed text,
  old_secret_until  timestamptz(3),
  enabled           boolean not null default true,
  -- Why Berth disabled it. null: the customer did, or it is enabled.
  disabled_reason   text,
  created_at        timestamptz(3) not null,
  updated_at        timestamptz(3)
);
create index webhook_by_account on webhook (account_id);

create table webhook_delivery (
  id          text primary key,
  webhook_id  text not null references webhook on delete cascade,
  event_id    bigint not null references event,
  state       text not null default 'pending' check (state in ('pending', 'delivered', 'failed')),
  -- The endpoint's last answer. null: none came.
  last_status integer,
  last_error  text,
  last_at     timestamptz(3),
  created_at  timestamptz(3) not null,
  due_at      timestamptz(3) not null,
  attempts    integer not null default 0,
  lease_token uuid,
  lease_until timestamptz(3),
  -- One event goes to one webhook once; a test or a redelivery makes the row due again.
  unique (webhook_id, event_id)
);
create index webhook_delivery_due on webhook_delivery (due_at) where state = 'pending';
create index webhook_delivery_by_webhook on webhook_delivery (webhook_id, created_at desc, id desc);

-- News for people. Those of an account come from its events; those of operators have no account.
create table notification (
  id           bigint generated always as identity primary key,
  -- null: for the operators.
  account_id   text references account,
  at           timestamptz(3) not null,
  kind         text not null,
  subject_kind text not null,
  subject_id   text not null,
  data         jsonb not null,
  -- null: not from an event.
  event_id     bigint references event,
  -- When its emails were queued, or nobody wanted one. null: not yet.
  mailed_at    timestamptz(3)
);
create index notification_by_account on notification (account_id, id);
create index notification_to_mail on notification (id) where mailed_at is null;
create index notification_mailed on notification (account_id, kind, mailed_at);
create index notification_by_age on notification (at);

-- The member has read everything up to this notification.
create table notification_mark (
  account_id text not null,
  person_id  text not null,
  read_up_to bigint not null,
  primary key (account_id, person_id),
  foreign key (account_id, person_id) references member on delete cascade
);

-- Single notifications above the mark that the member has read.
create table notification_read (
  account_id      text not null,
  person_id       text not null,
  notification_id bigint not null references notification on delete cascade,
  primary key (account_id, person_id, notification_id),
  foreign key (account_id, person_id) references member on delete cascade
);
create index notification_read_by_notification on notification_read (notification_id);

-- The kinds that a member wants to be told. No row: the default of the kind.
create table notification_choice (
  account_id text not null,
  person_id  text not null,
  kind       text not null,
  console    boolean not null,
  email      boolean not null,
  primary key (account_id, person_id, kind),
  foreign key (account_id, person_id) references member on delete cascade
);

-- Outgoing email: one row is one message to one member about notifications of one kind.
create table mail (
  id               text primary key,
  account_id       text not null,
  person_id        text not null,
  kind             text not null,
  notification_ids bigint[] not null check (cardinality(notification_ids) > 0),
  state            text not null default 'pending' check (state in ('pending', 'sent', 'failed')),
  due_at           timestamptz(3) not null,
  attempts         integer not null default 0,
  lease_token      uuid,
  lease_until      timestamptz(3),
  -- The mail server's last answer. null: none came, or it accepted the message.
  last_error       text check (length(last_error) <= 500),
  created_at       timestamptz(3) not null,
  ended_at         timestamptz(3),
  foreign key (account_id, person_id) references member on delete cascade
);
create index mail_due on mail (due_at) where state = 'pending';
create index mail_by_member on mail (account_id, person_id, kind, created_at);
create index mail_by_age on mail (created_at);

-- Confirmation emails that were sent, to limit them per account and per address.
create table mail_confirmation (
  id         bigint generated always as identity primary key,
  account_id text not null references account,
  person_id  text not null references person,
  sent_at    timestamptz(3) not null
);
create index mail_confirmation_by_account on mail_confirmation (account_id, sent_at);
create index mail_confirmation_by_person on mail_confirmation (person_id, sent_at);
create index mail_confirmation_by_age on mail_confirmation (sent_at);

-- Problems that operators were told about and that are not over, so that each is told once.
create table operator_alert (
  subject    text primary key,
  kind       text not null,
  created_at timestamptz(3) not null
);

-- Writes events, those that are notifications as such too, with a delivery for each webhook that wants them. Returns the
-- number of deliveries.
create function write_events(
  p_at timestamptz, p_account text[], p_type text[], p_subject_kind text[], p_subject_id text[], p_data jsonb[],
  p_notice text[]
) returns integer language plpgsql as $$
declare
  v_deliveries integer;
begin
  -- The last lock of a transaction, in a fixed order, so nobody who holds it waits for another.
  perform pg_advisory_xact_lock(hashtextextended('event:' || account, 0))
    from (select distinct account from unnest(p_account) account order by account) accounts;
  with written as (
    insert into event (account_id, at, type, subject_kind, subject_id, data, notice)
    select account_id, p_at, type, subject_kind, subject_id, data, notice
    from unnest(p_account, p_type, p_subject_kind, p_subject_id, p_data, p_notice)
      with ordinality as given (account_id, type, subject_kind, subject_id, data, notice, n)
    order by n
    returning id, account_id, type, subject_kind, subject_id, data, notice
  ), noticed as (
    insert into notification (account_id, at, kind, subject_kind, subject_id, data, event_id)
    select account_id, p_at, notice, subject_kind, subject_id, data, id from written where notice is not null order by id
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

-- Servers of an earlier version call this; their events are no notifications.
create function write_events(
  p_at timestamptz, p_account text[], p_type text[], p_subject_kind text[], p_subject_id text[], p_data jsonb[]
) returns integer language sql as $$
  select write_events(p_at, p_account, p_type, p_subject_kind, p_subject_id, p_data, array_fill(null::text, array[cardinality(p_account)]))
$$;
