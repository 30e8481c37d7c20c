-- Accounts at other clouds. Their machines are in 06_machine.sql, their costs in 11_purchase.sql.

create table provider_account (
  id                      text primary key,
  driver                  text not null check (driver in ('lambda', 'voltage-park', 'latitude', 'crusoe', 'denvr', 'verda')),
  -- The ids of its machines and offers contain it, so it is never changed and never used again.
  name                    text not null unique check (name ~ '^[a-z][a-z0-9-]{0,19}$'),
  base_url                text not null,
  -- A JSON object of texts, sealed by the vault.
  credentials_sealed      text not null,
  -- The number grows with each change of credentials or address: drivers open the account anew.
  version                 integer not null default 1,
  -- A map from regions of the cloud to ours, in addition to those that the driver knows.
  regions                 jsonb not null default '{}',
  -- The selling price of its offers: cost and markup, but at least the floor; or a fixed price. null: the price book only.
  markup_bp               integer check (markup_bp between 0 and 100000),
  floor_nano_per_gpu_hour bigint check (floor_nano_per_gpu_hour >= 0),
  fixed_nano_per_gpu_hour bigint check (fixed_nano_per_gpu_hour >= 0),
  -- Whether its machines may be sold for less than they cost.
  sells_below_cost        boolean not null default false,
  -- It takes no orders once its costs of a calendar month (UTC) reach this. null: no cap.
  monthly_cap_nano        bigint check (monthly_cap_nano >= 0),
  -- Placement prefers a higher one before the price.
  preference              integer not null default 0 check (preference between -100 and 100),
  -- `stale`: it does not answer. `broken`: it rejects us. Both have a reason.
  health                  text not null default 'unknown' check (health in ('unknown', 'healthy', 'stale', 'broken')),
  health_reason           text,
  health_since            timestamptz(3) not null,
  -- When it last listed its offers. null: never.
  answered_at             timestamptz(3),
  -- The operator takes no new orders there. null: they are welcome.
  suspended_at            timestamptz(3),
  created_at              timestamptz(3) not null,
  -- Its credentials are gone. null: in use.
  removed_at              timestamptz(3)
);
create index provider_account_in_use on provider_account (driver) where removed_at is null;

-- Rate limits of other clouds are per account, and all servers use the same accounts. A row is one limit of an account
-- (the empty route is that of all requests): the next request is sent then, on whichever server.
create table provider_turn (
  provider_account_id text not null references provider_account,
  route               text not null,
  next_at             timestamptz not null,
  primary key (provider_account_id, route)
);

-- Results of orders at an offer, and how many units it had, in steps of ten minutes: placement prefers offers that
-- deliver. Rows are deleted after seven days.
create table offer_outcome (
  driver      text not null,
  offer_id    text not null,
  -- The start of the ten minutes.
  at          timestamptz(3) not null,
  made        integer not null default 0,
  no_capacity integer not null default 0,
  -- Orders that were refused for another reason, or never ran.
  failed      integer not null default 0,
  -- Orders that ran, and the sum of their times from the create to then.
  started     integer not null default 0,
  start_ms    bigint not null default 0,
  -- The lowest and highest count that the engine reported. null: it reports none, or did not report.
  lowest      integer,
  highest     integer,
  primary key (driver, offer_id, at)
);
create index offer_outcome_by_age on offer_outcome (at);

-- An imported bill or usage list of a cloud.
create table provider_bill (
  id                  text primary key,
  provider_account_id text not null references provider_account,
  -- Digest of its period and lines: the same bill is imported once.
  digest              text not null,
  label               text not null,
  -- First and last UTC day that it bills. null: from the start of the machines, to their end.
  from_day            date,
  to_day              date,
  -- The key or session of the operator.
  imported_by         text not null,
  imported_at         timestamptz(3) not null,
  unique (provider_account_id, digest),
  check (from_day <= to_day)
);

-- Its amounts by machine or volume. A credit is below zero.
create table provider_bill_line (
  bill_id     text not null references provider_bill on delete cascade,
  -- The id at the cloud.
  machine     text not null,
  billed_nano bigint not null,
  primary key (bill_id, machine)
);
