-- Payments by card through Stripe. Every row here is written before the call that it leads to, so a kill between any two
-- steps leaves a row that the loop `payments` resolves; money moves by postings whose keys come from the processor's ids.

-- `processor`: our balance there, below zero as all assets of the house are. `tax`: owed to tax offices.
-- `processor_fees`: what the processor keeps. `receivables`: debts of customers, below zero.
alter table ledger_account drop constraint customer_or_house;
alter table ledger_account add constraint customer_or_house check (
  case when account_id is null
    then kind in ('revenue', 'funding', 'adjustments', 'payouts', 'credit', 'cost_of_goods', 'payables',
                  'processor', 'tax', 'processor_fees', 'receivables') and balance_nano is null
    else kind in ('available', 'held', 'earnings') and balance_nano is not null
  end);
insert into ledger_account (kind) values ('processor'), ('tax'), ('processor_fees'), ('receivables');

alter table posting drop constraint posting_kind_check;
alter table posting add constraint posting_kind_check check (kind in ('purchase', 'credit', 'adjustment', 'refund', 'hold',
  'release', 'charge', 'payout', 'credit_draw', 'credit_repayment', 'cost', 'payment_refund', 'dispute', 'dispute_return',
  'debt_repayment', 'payout_return', 'fee'));
alter table posting drop constraint posting_has_account;
-- Costs and fees of the processor are on no customer's statement.
alter table posting add constraint posting_has_account check (account_id is not null or kind in ('cost', 'fee'));

-- The account as the processor knows it. Test and live mode have nothing in common there.
create table billing_profile (
  account_id  text not null references account,
  is_live     boolean not null,
  customer_id text not null unique,
  created_at  timestamptz(3) not null,
  primary key (account_id, is_live)
);

-- Cards that customers saved on the processor's page, for automatic top-ups.
create table saved_card (
  -- The processor's id of the payment method.
  id          text primary key,
  account_id  text not null references account,
  is_live     boolean not null,
  brand       text not null,
  last4       text not null check (length(last4) = 4),
  -- Equal for the same number at every customer. null: the processor did not say.
  fingerprint text,
  exp_month   smallint not null check (exp_month between 1 and 12),
  exp_year    smallint not null,
  saved_at    timestamptz(3) not null,
  -- null: it can be charged.
  removed_at  timestamptz(3)
);
create index saved_card_by_account on saved_card (account_id, saved_at);

create table payment (
  -- The reference and the idempotency key at the processor.
  id          text primary key,
  account_id  text not null references account,
  -- Who asked for it. null: an automatic top-up.
  person_id   text references person,
  is_live     boolean not null,
  kind        text not null check (kind in ('checkout', 'automatic')),
  -- `mismatch`: the processor has something else than was asked for; nothing is credited until an operator has looked.
  state       text not null check (state in ('open', 'paid', 'failed', 'expired', 'mismatch')),
  -- The credit; whole cents. Tax comes on top.
  amount_nano bigint not null check (amount_nano > 0 and amount_nano % 10000000 = 0),
  -- null: not known before it is paid, or for an automatic one before it is calculated.
  tax_nano    bigint check (tax_nano >= 0 and tax_nano % 10000000 = 0),
  saves_card  boolean not null default false,
  -- null: not created at the processor yet.
  customer_id text,
  session_id  text unique,
  session_url text,
  intent_id   text unique,
  charge_id   text unique,
  -- The card of an automatic one.
  card_id     text references saved_card,
  -- The monthly cap of an automatic one, tax included, when it was tried.
  cap_nano    bigint,
  -- When to ask the processor again. null: an event makes it due.
  due_at      timestamptz(3),
  lease_token text,
  lease_until timestamptz(3),
  attempts    integer not null default 0,
  -- The processor's code of a failure, or what does not match.
  failure     text check (length(failure) <= 500),
  created_at  timestamptz(3) not null,
  expires_at  timestamptz(3) not null,
  paid_at     timestamptz(3),
  -- The processor warned that the card's owner may not know of it. null: it did not.
  fraud_at    timestamptz(3),
  constraint automatic_has_card check ((kind = 'automatic') = (card_id is not null) and (kind = 'automatic') = (cap_nano is not null)),
  constraint paid_is_complete check (state <> 'paid' or num_nulls(tax_nano, customer_id, intent_id, paid_at) = 0)
);
create index payment_by_account on payment (account_id, created_at, id);
create index payment_by_time on payment (created_at, id);
create index payment_due on payment (due_at) where due_at is not null;
create unique index payment_automatic_open on payment (account_id) where kind = 'automatic' and state = 'open';

-- Money that goes back to the card. It leaves the balance before the processor is asked; if that fails, it returns.
create table payment_refund (
  -- The idempotency key at the processor.
  id          text primary key,
  payment_id  text not null references payment,
  -- `open`: posted, and perhaps not asked for yet. `sent`: the processor has it.
  state       text not null check (state in ('open', 'sent', 'succeeded', 'failed')),
  amount_nano bigint not null check (amount_nano > 0 and amount_nano % 10000000 = 0),
  tax_nano    bigint not null check (tax_nano >= 0 and tax_nano % 10000000 = 0),
  refund_id   text unique,
  -- The key of the caller.
  actor       text not null,
  reason      text not null check (length(reason) between 1 and 500),
  due_at      timestamptz(3),
  lease_token text,
  lease_until timestamptz(3),
  attempts    integer not null default 0,
  failure     text check (length(failure) <= 500),
  created_at  timestamptz(3) not null,
  ended_at    timestamptz(3)
);
create index payment_refund_by_payment on payment_refund (payment_id);
create index payment_refund_due on payment_refund (due_at) where due_at is not null;

create table payment_dispute (
  -- The processor's id.
  id           text primary key,
  payment_id   text not null references payment,
  -- `inquiry`: nothing was withdrawn. `open`: the processor has withdrawn the money.
  state        text not null check (state in ('inquiry', 'open', 'won', 'lost', 'closed')),
  reason       text not null,
  -- What is disputed, tax included.
  amount_nano  bigint not null check (amount_nano > 0),
  -- Taken from the customer so far, as balance or debt, and the tax with it.
  taken_nano   bigint not null default 0 check (taken_nano >= 0),
  tax_nano     bigint not null default 0 check (tax_nano >= 0),
  -- Postings that took.
  takes        smallint not null default 0,
  -- All of it was given back.
  is_returned  boolean not null default false,
  created_at   timestamptz(3) not null,
  updated_at   timestamptz(3) not null,
  constraint takes_no_more_than_disputed check (taken_nano + tax_nano <= amount_nano),
  constraint inquiry_takes_nothing check (state <> 'inquiry' or takes = 0 or is_returned),
  constraint returned_was_taken check (not is_returned or takes > 0)
);
create index payment_dispute_by_payment on payment_dispute (payment_id);

-- Refunds and disputes of a payment never take more than was paid, whoever writes them.
create function payment_is_not_overdrawn() returns trigger language plpgsql as $$
declare
  v_payment payment;
  v_amount  numeric;
  v_tax     numeric;
begin
  select * into strict v_payment from payment where id = new.payment_id for update;
  select coalesce(sum(amount), 0), coalesce(sum(tax), 0) into v_amount, v_tax from (
    select amount_nano as amount, tax_nano as tax from payment_refund where payment_id = new.payment_id and state <> 'failed'
    union all
    select taken_nano, tax_nano from payment_dispute where payment_id = new.payment_id and not is_returned) taken;
  if v_payment.state <> 'paid' and v_amount + v_tax > 0 then
    raise exception 'payment % is not paid', new.payment_id using errcode = 'check_violation';
  end if;
  if v_amount > v_payment.amount_nano or v_tax > v_payment.tax_nano then
    raise exception 'payment % is overdrawn', new.payment_id using errcode = 'check_violation';
  end if;
  return null;
end $$;
create trigger refund_is_covered after insert or update on payment_refund
  for each row execute function payment_is_not_overdrawn();
create trigger dispute_is_covered after insert or update on payment_dispute
  for each row execute function payment_is_not_overdrawn();

-- Messages of the processor. They only wake: what happened is read from the processor itself.
create table processor_event (
  -- The processor's id.
  id          text primary key,
  is_live     boolean not null,
  type        text not null check (length(type) <= 100),
  -- The object that it is about. '': it has no id.
  object_id   text not null check (length(object_id) <= 255),
  created_at  timestamptz(3) not null,
  received_at timestamptz(3) not null,
  -- null: it is to be handled.
  handled_at  timestamptz(3),
  -- When to try next. null: handled.
  due_at      timestamptz(3),
  lease_token text,
  lease_until timestamptz(3),
  attempts    integer not null default 0,
  last_error  text check (length(last_error) <= 500),
  constraint due_until_handled check ((handled_at is null) = (due_at is not null))
);
create index processor_event_due on processor_event (due_at) where due_at is not null;
create index processor_event_by_time on processor_event (received_at);

-- What an operator must look at: money at the processor that does not fit what Berth knows. One row per matter.
create table payment_alert (
  id         bigint generated always as identity primary key,
  kind       text not null check (kind in ('foreign', 'mismatch', 'dispute', 'fraud_warning', 'difference')),
  -- The processor's object, or the day of a comparison.
  subject    text not null,
  account_id text references account,
  detail     text not null check (length(detail) <= 1000),
  at         timestamptz(3) not null,
  unique (kind, subject)
);

-- A customer's wish to be charged before the balance ends. The row stays when it is switched off.
create table auto_top_up (
  account_id     text primary key references account,
  is_on          boolean not null,
  -- Charged when `available` is below it.
  below_nano     bigint not null check (below_nano > 0),
  amount_nano    bigint not null check (amount_nano > 0 and amount_nano % 10000000 = 0),
  -- Most in a month (UTC), tax included.
  cap_nano       bigint not null check (cap_nano >= amount_nano and cap_nano % 10000000 = 0),
  card_id        text not null references saved_card,
  -- Failures since the last success; the third switches it off.
  failures       smallint not null default 0 check (failures between 0 and 3),
  -- The start of the last attempt, good or bad. null: none.
  attempted_at   timestamptz(3),
  -- Why it is off. null: it is on, or a person switched it off.
  off_reason     text check (off_reason in ('failures', 'card_removed', 'authentication')),
  -- Who agreed to which sentence, when and from where.
  consent_by     text references person,
  consent_key    text not null,
  consent_at     timestamptz(3) not null,
  consent_text   text not null check (length(consent_text) between 1 and 1000),
  consent_address text,
  updated_at     timestamptz(3) not null,
  constraint three_failures_switch_off check (failures < 3 or not is_on),
  constraint reason_only_while_off check (off_reason is null or not is_on)
);

-- Automatic payments of a month stay within the cap that each was tried with, whatever a server has read before.
create function automatic_payment_is_within_cap() returns trigger language plpgsql as $$
declare
  v_total numeric;
begin
  perform 1 from auto_top_up where account_id = new.account_id for update;
  select sum(amount_nano + coalesce(tax_nano, 0)) into v_total from payment
    where account_id = new.account_id and kind = 'automatic' and state in ('open', 'paid')
      and date_trunc('month', created_at at time zone 'UTC') = date_trunc('month', new.created_at at time zone 'UTC');
  if v_total > new.cap_nano then
    raise exception 'payment % exceeds the monthly cap', new.id using errcode = 'check_violation', constraint = 'payment_within_cap';
  end if;
  return null;
end $$;
create trigger payment_within_cap after insert or update of amount_nano, tax_nano on payment
  for each row when (new.kind = 'automatic' and new.state = 'open') execute function automatic_payment_is_within_cap();

-- What an account owes after a chargeback of money that it had spent. Like drawn credit it is not a balance: every
-- deposit and release repays it, so an account in debt has nothing available.
create table account_debt (
  account_id text primary key references account,
  owed_nano  bigint not null check (owed_nano >= 0)
);

create function repay_debt(p_key text, p_account text, p_at timestamptz) returns void language plpgsql as $$
declare
  v_amount bigint;
begin
  if not exists (select 1 from account_debt where account_id = p_account and owed_nano > 0) then return; end if;
  perform 1 from ledger_account l where l.account_id = p_account order by l.id for update;
  select least(d.owed_nano, l.balance_nano) into v_amount
    from account_debt d join ledger_account l on l.account_id = d.account_id and l.kind = 'available'
    where d.account_id = p_account for update of d;
  if v_amount = 0 then return; end if;
  perform ledger_post(p_key, 'debt_repayment', p_at, p_account, 'Debt repaid', null, null, null, null, null, null,
    array[ledger_account_id(p_account, 'available')], array[ledger_account_id(null, 'receivables')], array[v_amount]);
  update account_debt set owed_nano = owed_nano - v_amount where account_id = p_account;
end $$;

-- As before, after debts: it is called after every posting that adds to `available`, also by servers of the version before.
create or replace function repay_credit(p_key text, p_account text, p_at timestamptz) returns void language plpgsql as $$
declare
  v_amount bigint;
begin
  perform repay_debt(p_key || ':debt', p_account, p_at);
  if not exists (select 1 from credit_line where account_id = p_account and used_nano > 0) then return; end if;
  perform 1 from ledger_account l where l.account_id = p_account order by l.id for update;
  select least(c.used_nano, l.balance_nano) into v_amount
    from credit_line c join ledger_account l on l.account_id = c.account_id and l.kind = 'available'
    where c.account_id = p_account for update of c;
  if v_amount = 0 then return; end if;
  perform ledger_post(p_key, 'credit_repayment', p_at, p_account, 'Credit line repaid', null, null, null, null, null, null,
    array[ledger_account_id(p_account, 'available')], array[ledger_account_id(null, 'credit')], array[v_amount]);
  update credit_line set used_nano = used_nano - v_amount where account_id = p_account;
end $$;

-- Nobody orders while in debt, not on credit and not for nothing either. The answer comes before anything is looked at;
-- orders in batches that must wait are placed alone, and get it then.
alter function place_orders(jsonb, timestamptz, boolean) rename to place_orders_without_debt;
create function place_orders(p_orders jsonb, p_at timestamptz, p_waits boolean)
returns table (n integer, outcome text, detail jsonb, rental rental) language plpgsql
-- As in the function that it calls: a plan may be made while a table is still small.
set enable_seqscan = 'off' as $$
#variable_conflict use_column
declare
  v_accounts text[] := array(select o ->> 'account_id' from jsonb_array_elements(p_orders) o);
  v_debtors  text[];
begin
  -- A dispute writes a debt under the lock of the balances.
  if p_waits then
    perform 1 from ledger_account l where l.account_id = any (v_accounts) order by l.id for update;
  end if;
  select array_agg(d.account_id) into v_debtors from account_debt d
    where d.account_id = any (v_accounts) and d.owed_nano > 0;
  if v_debtors is null then
    return query select p.n, p.outcome, p.detail, p.rental from place_orders_without_debt(p_orders, p_at, p_waits) p;
    return;
  end if;
  return query select (o ->> 'n')::integer, 'account_in_debt', null::jsonb, null::rental
    from jsonb_array_elements(p_orders) o where o ->> 'account_id' = any (v_debtors);
  select jsonb_agg(o) into p_orders from jsonb_array_elements(p_orders) o where o ->> 'account_id' <> all (v_debtors);
  if p_orders is not null then
    return query select p.n, p.outcome, p.detail, p.rental from place_orders_without_debt(p_orders, p_at, p_waits) p;
  end if;
end $$;
