-- Cost by day, budgets, notifications and e-mail.

-- The ledger added up by day and by what was paid for: one row where the ledger has one posting every five minutes.
-- A trigger writes it in the transaction of each posting, so the rows of an account always add up to its balance;
-- `ledger/verify` recounts that. Holds and releases are not in it.
create table ledger_day (
  account_id  text not null references account,
  -- In UTC, of the posting.
  day         date not null,
  -- Of the posting.
  kind        text not null,
  service     text not null check (service in ('machines', 'storage', 'models', 'other')),
  -- 0 and '': none.
  rental_id   integer not null,
  volume_id   integer not null,
  api_key_id  text not null,
  model       text not null,
  -- Above zero: the balance grew.
  amount_nano bigint not null,
  postings    integer not null check (postings > 0),
  primary key (account_id, day, kind, service, rental_id, volume_id, api_key_id, model)
);

-- Charges less refunds of an account, by UTC month. Below zero when more was refunded than charged in a month.
create table account_spend (
  account_id text not null references account,
  month      date not null,
  spent_nano bigint not null,
  primary key (account_id, month)
);

-- The disk of a stopped rental is storage. Asked through JSON, because the column is younger than some segments.
create function service_of(p_key text, p_rental integer, p_volume integer, p_model text) returns text language sql stable as $$
  select case when p_model is not null then 'models'
    when p_volume is not null then 'storage'
    when p_rental is null then 'other'
    when p_key like 'segment:%' and exists (select 1 from segment s
      where s.id = split_part(p_key, ':', 2)::bigint and (to_jsonb(s) ->> 'while_stopped')::boolean) then 'storage'
    else 'machines' end
$$;

-- What a set of transfers changes in the sums, by day and by what was paid for.
create function count_transfers() returns trigger language plpgsql as $$
begin
  if not exists (select 1 from added t join posting p on p.id = t.posting_id where p.kind not in ('hold', 'release')) then
    return null;
  end if;
  with counted as (
    insert into ledger_day as d (account_id, day, kind, service, rental_id, volume_id, api_key_id, model, amount_nano, postings)
      select p.account_id, (p.at at time zone 'UTC')::date, p.kind, service_of(p.key, p.rental_id, p.volume_id, p.model),
        coalesce(p.rental_id, 0), coalesce(p.volume_id, 0), coalesce(p.api_key_id, ''), coalesce(p.model, ''),
        sum(case when own.id = t.to_id then t.amount_nano else -t.amount_nano end), count(distinct p.id)
      from added t
      join posting p on p.id = t.posting_id
      join ledger_account own on own.id = any (array[t.from_id, t.to_id])
      where p.kind not in ('hold', 'release') and own.account_id = p.account_id and own.kind in ('available', 'held')
      group by 1, 2, 3, 4, 5, 6, 7, 8
      on conflict (account_id, day, kind, service, rental_id, volume_id, api_key_id, model)
        do update set amount_nano = d.amount_nano + excluded.amount_nano, postings = d.postings + excluded.postings
  )
  insert into account_spend as s (account_id, month, spent_nano)
    select p.account_id, date_trunc('month', p.at at time zone 'UTC')::date,
      sum(case when own.id = t.from_id then t.amount_nano else -t.amount_nano end)
    from added t
    join posting p on p.id = t.posting_id
    join ledger_account own on own.id = any (array[t.from_id, t.to_id])
    where p.kind in ('charge', 'refund') and own.account_id = p.account_id and own.kind in ('available', 'held')
    group by 1, 2
    on conflict (account_id, month) do update set spent_nano = s.spent_nano + excluded.spent_nano;
  return null;
end $$;

-- The days so far. Servers of the previous version wait for this lock, and then find the trigger.
lock table transfer in share row exclusive mode;
create trigger transfer_is_counted after insert on transfer referencing new table as added
  for each statement execute function count_transfers();
insert into ledger_day (account_id, day, kind, service, rental_id, volume_id, api_key_id, model, amount_nano, postings)
  select p.account_id, (p.at at time zone 'UTC')::date, p.kind, service_of(p.key, p.rental_id, p.volume_id, p.model),
    coalesce(p.rental_id, 0), coalesce(p.volume_id, 0), coalesce(p.api_key_id, ''), coalesce(p.model, ''),
    sum(case when own.id = t.to_id then t.amount_nano else -t.amount_nano end), count(distinct p.id)
  from posting p
  join transfer t on t.posting_id = p.id
  join ledger_account own on own.id in (t.from_id, t.to_id) and own.account_id = p.account_id and own.kind in ('available', 'held')
  where p.kind not in ('hold', 'release')
  group by 1, 2, 3, 4, 5, 6, 7, 8;
insert into account_spend (account_id, month, spent_nano)
  select account_id, date_trunc('month', day)::date, -sum(amount_nano) from ledger_day
  where kind in ('charge', 'refund') group by 1, 2;

-- Monthly budgets. A budget never takes money: it alerts, and blocks or stops what would spend more.
create table budget (
  id              text primary key,
  account_id      text not null references account,
  name            text not null check (length(name) between 1 and 255),
  scope           text not null check (scope in ('account', 'key', 'label')),
  -- The public id of the key, or the label. '': the whole account.
  scope_value     text not null default '',
  amount_nano     bigint not null check (amount_nano > 0),
  -- In percent, ascending.
  alerts          smallint[] not null,
  -- At 100 %: only alert; block new orders and inference; stop rentals too; terminate those that cannot be stopped.
  action          text not null check (action in ('alert', 'block', 'stop', 'terminate')),
  -- The month of the two marks below. null: none yet.
  month           date,
  -- The highest alert that was raised in that month. 0: none.
  alerted         smallint not null default 0,
  -- When 100 % was reached in that month. null: not reached.
  exceeded_at     timestamptz(3),
  created_at      timestamptz(3) not null,
  updated_at      timestamptz(3),
  unique (account_id, scope, scope_value)
);

-- What the account's budgets leave for inference this month, less what is in purses. null: no budget blocks it.
-- To be asked under the lock of the account's balances.
create function budget_allowance(p_account text, p_at timestamptz) returns bigint language sql stable as $$
  select min(case when b.exceeded_at is not null and b.month = m.month then 0
      else b.amount_nano - coalesce(s.spent_nano, 0)
        - (select coalesce(sum(h.amount_nano), 0)::bigint from hold h where h.account_id = p_account and h.key like 'purse:%')
      end)
  from (select date_trunc('month', p_at at time zone 'UTC')::date as month) m
  join budget b on b.account_id = p_account and b.scope = 'account' and b.action <> 'alert'
  left join account_spend s on s.account_id = p_account and s.month = m.month
$$;

-- As before (schema/0009_purses.sql), and a purse gets no more than a budget leaves. One more answer: 'budget'.
create or replace function top_up_purse(
  p_gateway text, p_account text, p_key text, p_wanted bigint, p_needed bigint, p_at timestamptz, p_expires timestamptz
) returns table (outcome text, hold_key text, amount bigint) language plpgsql as $$
declare
  v_hold   text := 'purse:' || p_gateway || ':' || p_account || coalesce(':' || p_key, '');
  v_needed bigint := greatest(p_needed, 1);
  v_amount bigint;
  v_left   bigint;
begin
  perform 1 from ledger_account l where l.account_id = p_account order by l.id for update;
  -- Not more than half of what there is, unless that is too little: the other gateways serve this account too.
  select least(greatest(least(p_wanted, l.balance_nano / 2), v_needed), l.balance_nano) into strict v_amount
    from ledger_account l where l.account_id = p_account and l.kind = 'available';
  if v_amount < v_needed then
    return query select 'balance', v_hold, 0::bigint;
    return;
  end if;
  if p_key is not null then
    v_amount := least(v_amount, key_allowance(p_account, p_key, p_at));
    if v_amount < v_needed then
      return query select 'key_limit', v_hold, 0::bigint;
      return;
    end if;
  end if;
  v_left := budget_allowance(p_account, p_at);
  if v_left is not null then
    v_amount := least(v_amount, v_left);
    if v_amount < v_needed then
      return query select 'budget', v_hold, 0::bigint;
      return;
    end if;
  end if;
  if ledger_hold('purse:' || gen_random_uuid(), v_hold, p_at, p_account, v_amount, 'Set aside for inference', p_expires) <> 'posted' then
    raise exception 'the balance of % changed under its lock', p_account;
  end if;
  perform open_purse(v_hold, p_gateway, p_account, p_key, p_at);
  return query select 'granted', v_hold, v_amount;
end $$;

-- How many days before the end of the term its customer was last told. null: not told yet.
alter table term add column warned_days smallint;

-- The kind of notification that an event is. null: it is none.
alter table event add column notice text;

-- What people should know. Those of an account come from its events; those of operators have no account.
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
  -- When its e-mails were queued, or it was found that nobody wants one. null: not yet.
  mailed_at    timestamptz(3)
);
create index notification_by_account on notification (account_id, id);
create index notification_to_mail on notification (id) where mailed_at is null;
create index notification_mailed on notification (account_id, kind, mailed_at);
create index notification_by_age on notification (at);

-- Everything up to this notification is read by the member.
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

-- What a member wants to be told, by kind. No row: the default of the kind.
create table notification_choice (
  account_id text not null,
  person_id  text not null,
  kind       text not null,
  console    boolean not null,
  email      boolean not null,
  primary key (account_id, person_id, kind),
  foreign key (account_id, person_id) references member on delete cascade
);

-- Outgoing e-mail: one row is one message to one member about notifications of one kind.
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

-- Problems that operators were told about and that are not over, so that each is told once.
create table operator_alert (
  subject    text primary key,
  kind       text not null,
  created_at timestamptz(3) not null
);

-- As before (schema/0006_events.sql), and events that are notifications are kept as such.
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

-- For servers of the previous version: their events are no notifications.
create or replace function write_events(
  p_at timestamptz, p_account text[], p_type text[], p_subject_kind text[], p_subject_id text[], p_data jsonb[]
) returns integer language sql as $$
  select write_events(p_at, p_account, p_type, p_subject_kind, p_subject_id, p_data, array_fill(null::text, array[cardinality(p_account)]))
$$;
