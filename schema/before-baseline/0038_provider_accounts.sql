-- Accounts at other clouds, and what their machines cost us.

create table provider_account (
  id                     text primary key,
  driver                 text not null check (driver in ('lambda', 'voltage-park', 'latitude', 'crusoe', 'denvr', 'verda')),
  -- Part of the ids of its machines and offers, so it is never changed and never used again.
  name                   text not null unique check (name ~ '^[a-z][a-z0-9-]{0,19}$'),
  base_url               text not null,
  -- A JSON object of texts, sealed by the vault.
  credentials_sealed     text not null,
  -- Grows with each change of credentials or address: drivers open the account anew.
  version                integer not null default 1,
  -- From regions of the cloud to ours, in addition to those that the driver knows.
  regions                jsonb not null default '{}',
  -- The selling price of its offers: cost and markup, but at least the floor; or a fixed price. null: the price book only.
  markup_bp              integer check (markup_bp between 0 and 100000),
  floor_nano_per_gpu_hour bigint check (floor_nano_per_gpu_hour >= 0),
  fixed_nano_per_gpu_hour bigint check (fixed_nano_per_gpu_hour >= 0),
  -- Its machines may be sold for less than they cost.
  sells_below_cost       boolean not null default false,
  -- It takes no orders once its costs of a calendar month (UTC) reach this. null: no cap.
  monthly_cap_nano       bigint check (monthly_cap_nano >= 0),
  -- Placement prefers a higher one before the price.
  preference             integer not null default 0 check (preference between -100 and 100),
  -- `stale`: it does not answer. `broken`: it rejects us. Both with the reason.
  health                 text not null default 'unknown' check (health in ('unknown', 'healthy', 'stale', 'broken')),
  health_reason          text,
  health_since           timestamptz(3) not null,
  -- When it last listed its offers. null: never.
  answered_at            timestamptz(3),
  -- The operator takes no new orders there. null: they are welcome.
  suspended_at           timestamptz(3),
  created_at             timestamptz(3) not null,
  -- Its credentials are gone. null: in use.
  removed_at             timestamptz(3)
);
create index provider_account_in_use on provider_account (driver) where removed_at is null;

alter table machine
  -- Of the account that offers it; see above.
  add column preference integer not null default 0,
  add column sells_below_cost boolean not null default false;

-- The account whose rule made this price. null: the operator set it, and no rule changes it.
alter table gpu_price add column provider_account_id text references provider_account;

-- Orders that an offer filled or refused, by UTC day: placement prefers offers that deliver.
create table offer_outcome (
  driver   text not null,
  offer_id text not null,
  day      date not null,
  created  integer not null default 0,
  refused  integer not null default 0,
  primary key (driver, offer_id, day)
);

-- A period in which a machine cost us one price. The first one begins and the last one ends by the rules of the vendor.
create table purchase (
  id                  bigint generated always as identity primary key,
  provider_account_id text not null references provider_account,
  rental_id           integer not null references rental,
  -- At the engine. A rental may have had several machines, if a create succeeded without an answer.
  external_id         text not null,
  nano_per_hour       bigint not null check (nano_per_hour >= 0),
  increment_ms        integer not null check (increment_ms > 0),
  minimum_ms          bigint not null check (minimum_ms >= 0),
  -- When the first period of the machine began.
  bought_at           timestamptz(3) not null,
  started_at          timestamptz(3) not null,
  -- When the machine or its price ended, plus the rest of the increment or minimum that is billed. null: it runs.
  ended_at            timestamptz(3),
  settled_until       timestamptz(3) not null,
  settled_nano        bigint not null default 0 check (settled_nano >= 0),
  settlements         integer not null default 0,
  check (bought_at <= started_at and started_at <= settled_until and settled_until <= coalesce(ended_at, settled_until))
);
create unique index purchase_open on purchase (external_id) where ended_at is null;
create index purchase_by_rental on purchase (rental_id);

-- What was posted for an account, by UTC day and rental.
create table provider_cost (
  provider_account_id text not null references provider_account,
  day                 date not null,
  rental_id           integer not null references rental,
  cost_nano           bigint not null check (cost_nano >= 0),
  primary key (provider_account_id, day, rental_id)
);

-- The house owes what it buys (`payables`) and books it as `cost_of_goods`.
alter table ledger_account drop constraint customer_or_house;
alter table ledger_account add constraint customer_or_house check (
  case when account_id is null
    then kind in ('revenue', 'funding', 'adjustments', 'payouts', 'credit', 'cost_of_goods', 'payables') and balance_nano is null
    else kind in ('available', 'held', 'earnings') and balance_nano is not null
  end);
insert into ledger_account (kind) values ('cost_of_goods'), ('payables');

alter table posting drop constraint posting_kind_check;
alter table posting add constraint posting_kind_check check (kind in
  ('purchase', 'credit', 'adjustment', 'refund', 'hold', 'release', 'charge', 'payout', 'credit_draw', 'credit_repayment', 'cost'))
  not valid;
-- Costs are on no customer's statement.
alter table posting alter column account_id drop not null;
alter table posting add constraint posting_has_account check (account_id is not null or kind = 'cost') not valid;

-- Books the cost of a period of a machine up to an instant.
create function ledger_cost(
  p_key text, p_at timestamptz, p_account text, p_rental integer, p_amount bigint, p_memo text
) returns text language plpgsql as $$
declare
  v_answer text;
begin
  v_answer := ledger_post(p_key, 'cost', p_at, null, p_memo, null, null, p_rental, null, null, null,
    array[ledger_account_id(null, 'payables')], array[ledger_account_id(null, 'cost_of_goods')], array[p_amount]);
  if v_answer = 'posted' then
    insert into provider_cost as c (provider_account_id, day, rental_id, cost_nano)
      values (p_account, (p_at at time zone 'UTC')::date, p_rental, p_amount)
      on conflict (provider_account_id, day, rental_id) do update set cost_nano = c.cost_nano + excluded.cost_nano;
  end if;
  return v_answer;
end $$;
