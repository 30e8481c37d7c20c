-- Payouts to suppliers: where each wants its earnings, and runs that pay what is past the holdback. A row is written before
-- the call or the file that it leads to, and the posting `payout` at the approval, so nothing is ever sent that the ledger
-- does not have.

-- Where a supplier is paid.
create table payout_account (
  account_id     text primary key references account,
  -- `stripe`: a connected account there. `bank`: a line in the operator's bank file.
  kind           text not null check (kind in ('stripe', 'bank')),
  -- The mode of the connected account. It is kept while the supplier is paid by bank. null: there is none.
  is_live        boolean,
  stripe_id      text unique,
  country        text check (length(country) = 2),
  -- Of a bank account. null: `stripe`.
  details_sealed text,
  -- What people may see of it: the last characters.
  hint           text not null check (length(hint) <= 40),
  -- The bank account behind the connected one, as Stripe names it: another one is a change. null: none yet, or `bank`.
  fingerprint    text,
  -- The processor pays out to it. Bank accounts are as their owner entered them.
  is_confirmed   boolean not null,
  changed_at     timestamptz(3) not null,
  -- The key that changed it. null: it was changed at the processor.
  changed_by     text,
  -- When to ask the processor again. null: `bank`.
  due_at         timestamptz(3),
  lease_token    text,
  lease_until    timestamptz(3),
  attempts       integer not null default 0,
  constraint kind_has_its_details check ((kind = 'bank') = (details_sealed is not null)),
  constraint bank_is_confirmed check (kind = 'stripe' or is_confirmed),
  constraint connected_has_mode check ((is_live is null) = (stripe_id is null) or kind = 'stripe')
);
create index payout_account_due on payout_account (due_at) where due_at is not null;

create table payout_run (
  id             text primary key,
  state          text not null check (state in ('draft', 'approved', 'sent', 'paid', 'canceled')),
  -- Earnings that were posted before it are paid.
  until          timestamptz(3) not null,
  -- The key of the operator. null: the schedule.
  created_by     text,
  created_at     timestamptz(3) not null,
  approved_by    text,
  approved_at    timestamptz(3),
  -- The bank file was written. null: not yet, or nothing in it goes to a bank.
  exported_at    timestamptz(3),
  exported_by    text,
  export_format  text check (export_format in ('csv', 'pain.001')),
  currency       text check (currency in ('USD', 'EUR')),
  -- EUR for one USD. null: the file is in USD.
  rate           numeric(12, 6) check (rate > 0),
  -- The sum of the file.
  exported_cents bigint check (exported_cents > 0),
  ended_at       timestamptz(3),
  constraint approved_by_somebody check ((approved_at is null) = (approved_by is null)),
  constraint approved_is_known check ((state in ('draft', 'canceled')) = (approved_at is null)),
  constraint export_is_complete check (
    num_nulls(exported_at, exported_by, export_format, currency, exported_cents) in (0, 5) and (currency = 'EUR') is not distinct from
      (case when currency is not null then rate is not null end))
);
create unique index payout_run_one_draft on payout_run (state) where state = 'draft';
create index payout_run_by_time on payout_run (created_at, id);

create table payout (
  -- The idempotency key and the transfer group at the processor, and the reference in the bank file.
  id             text primary key,
  run_id         text not null references payout_run,
  account_id     text not null references account,
  kind           text not null check (kind in ('stripe', 'bank')),
  -- null: by bank.
  is_live        boolean,
  -- `sent`: the processor or the bank file has it. `paid`: the processor or the operator said so. `failed`: all of it is in
  -- `earnings` again.
  state          text not null check (state in ('draft', 'approved', 'sent', 'paid', 'failed', 'canceled')),
  amount_nano    bigint not null check (amount_nano > 0 and amount_nano % 10000000 = 0),
  -- What came back.
  returned_nano  bigint not null default 0,
  -- Copied at the approval: a later change concerns later runs.
  destination    text,
  details_sealed text,
  hint           text not null,
  transfer_id    text unique,
  -- Its line in the bank file, in the file's currency.
  exported_cents bigint check (exported_cents > 0),
  -- How often the processor had too little money for it.
  refusals       integer not null default 0,
  -- Why it waits, failed or was canceled.
  failure        text check (length(failure) <= 500),
  due_at         timestamptz(3),
  lease_token    text,
  lease_until    timestamptz(3),
  attempts       integer not null default 0,
  created_at     timestamptz(3) not null,
  sent_at        timestamptz(3),
  ended_at       timestamptz(3),
  unique (run_id, account_id),
  constraint stripe_has_mode check ((kind = 'stripe') = (is_live is not null)),
  constraint approved_knows_where check (state in ('draft', 'canceled')
    or case kind when 'stripe' then destination is not null else details_sealed is not null end),
  constraint returns_no_more_than_paid check (returned_nano between 0 and amount_nano),
  constraint failed_is_returned check ((state = 'failed') = (returned_nano = amount_nano)),
  constraint sent_is_at_the_processor check (kind = 'bank' or state not in ('sent', 'paid') or transfer_id is not null),
  constraint sent_is_exported check (kind = 'stripe' or state not in ('sent', 'paid') or exported_cents is not null)
);
create unique index payout_one_draft on payout (account_id) where state = 'draft';
create index payout_by_account on payout (account_id, created_at, id);
create index payout_due on payout (due_at) where due_at is not null;

-- Money that came back: a reversal at the processor, or the whole payout, which failed.
create table payout_return (
  -- The processor's reversal, or '<payout>:failed'.
  id          text primary key,
  payout_id   text not null references payout,
  amount_nano bigint not null check (amount_nano > 0),
  at          timestamptz(3) not null
);
create index payout_return_by_payout on payout_return (payout_id);

alter table payment_alert drop constraint payment_alert_kind_check;
alter table payment_alert add constraint payment_alert_kind_check
  check (kind in ('foreign', 'mismatch', 'dispute', 'fraud_warning', 'difference', 'payout'));
