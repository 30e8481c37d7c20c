-- The ledger added up by day, and budgets.

-- One row where the ledger has one posting every five minutes. A trigger writes it in the transaction of each posting, so
-- the rows of an account always add up to its balance; `ledger/verify` recounts that. Holds and releases are not in it.
create table ledger_day (
  account_id  text not null references account,
  -- The UTC day and the kind of the posting.
  day         date not null,
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
-- Charges of all accounts together on a day, and income from models in a period.
create index ledger_day_by_day on ledger_day (day);
create index ledger_day_of_models on ledger_day (day, model) where service = 'models';

-- Charges less refunds of an account, by UTC month. Below zero when more was refunded than charged in a month.
create table account_spend (
  account_id text not null references account,
  month      date not null,
  spent_nano bigint not null,
  primary key (account_id, month)
);

-- The disk of a stopped rental is storage.
create function service_of(p_key text, p_rental integer, p_volume integer, p_model text) returns text language sql stable as $$
  select case when p_model is not null then 'models'
    when p_volume is not null then 'storage'
    when p_rental is null then 'other'
    when p_key like 'segment:%' and exists (select 1 from segment s
      where s.id = split_part(p_key, ':', 2)::bigint and (to_jsonb(s) ->> 'while_stopped')::boolean) then 'storage'
    else 'machines' end
$$;

-- Adds a set of transfers to the sums, by day and by service. Without the setting PostgreSQL keeps a sequential scan of
-- postings from a time when they were few.
create function count_transfers() returns trigger language plpgsql set enable_seqscan = 'off' as $$
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
create trigger transfer_is_counted after insert on transfer referencing new table as added
  for each statement execute function count_transfers();

-- Monthly budgets. A budget never takes money: it alerts, and blocks or stops what would spend more.
create table budget (
  id          text primary key,
  account_id  text not null references account,
  name        text not null check (length(name) between 1 and 255),
  scope       text not null check (scope in ('account', 'key', 'label')),
  -- The public id of the key, or the label. '': the whole account.
  scope_value text not null default '',
  amount_nano bigint not null check (amount_nano > 0),
  -- Percentages, ascending.
  alerts      smallint[] not null,
  -- The action at 100 %: only alert; block new orders and inference; stop rentals too; terminate those that cannot be stopped.
  action      text not null check (action in ('alert', 'block', 'stop', 'terminate')),
  -- The month of the two marks below. null: none yet.
  month       date,
  -- The highest alert that was raised in that month. 0: none.
  alerted     smallint not null default 0,
  -- When 100 % was reached in that month. null: not reached.
  exceeded_at timestamptz(3),
  created_at  timestamptz(3) not null,
  updated_at  timestamptz(3),
  unique (account_id, scope, scope_value)
);

-- The amount that the account's budgets leave for inference this month, less what is in purses. null: no budget blocks
-- it. The caller has locked the account's balances.
create function budget_allowance(p_account text, p_at timestamptz) returns bigint language sql stable as $$
  select min(case when b.exceeded_at is not null and b.month = m.month then 0
      else b.amount_nano - coalesce(s.spent_nano, 0)
        - (select coalesce(sum(h.amount_nano), 0)::bigint from hold h where h.account_id = p_account and h.key like 'purse:%')
      end)
  from (select date_trunc('month', p_at at time zone 'UTC')::date as month) m
  join budget b on b.account_id = p_account and b.scope = 'account' and b.action <> 'alert'
  left join account_spend s on s.account_id = p_account and s.month = m.month
$$;
