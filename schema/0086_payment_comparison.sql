-- The processor's own ledger, read once a day and compared with payments, refunds and disputes. Its fees are booked here.

create table processor_transaction (
  -- The processor's id.
  id         text primary key,
  is_live    boolean not null,
  -- `fee`: only a fee. `own`: it moves the operator's own money, such as to its bank; nothing is compared with it.
  kind       text not null check (kind in ('charge', 'refund', 'dispute', 'transfer', 'fee', 'own', 'other')),
  -- The charge, refund, dispute or transfer. null: it has none.
  source_id  text check (length(source_id) <= 255),
  -- In the smallest unit of the currency; below zero if money left.
  cents      bigint not null,
  -- Kept by the processor besides; below zero if a fee was given back.
  fee_cents  bigint not null,
  currency   text not null check (length(currency) = 3),
  created_at timestamptz(3) not null,
  read_at    timestamptz(3) not null
);
create index processor_transaction_by_source on processor_transaction (source_id);

-- One per day (UTC); a later one of the same day replaces it.
create table payment_comparison (
  day            date not null,
  is_live        boolean not null,
  compared_at    timestamptz(3) not null,
  -- What changed since is left for the next comparison.
  until          timestamptz(3) not null,
  -- Charges, refunds, disputes and transfers of either side.
  objects        integer not null check (objects >= 0),
  processor_nano bigint not null,
  recorded_nano  bigint not null,
  -- All fees so far.
  fees_nano      bigint not null,
  differences    integer not null check (differences between 0 and objects),
  primary key (day, is_live),
  constraint no_difference_is_equal check (differences > 0 or processor_nano = recorded_nano)
);

create table payment_difference (
  day            date not null,
  is_live        boolean not null,
  -- The processor's object, or our id of one that it does not know.
  subject        text not null,
  kind           text not null check (kind in ('charge', 'refund', 'dispute', 'transfer', 'other')),
  -- null: the processor has nothing of it, or in another currency.
  processor_nano bigint,
  -- null: it is not known here.
  recorded_nano  bigint,
  primary key (day, is_live, subject),
  foreign key (day, is_live) references payment_comparison on delete cascade,
  constraint differs check (processor_nano is distinct from recorded_nano or processor_nano is null)
);
