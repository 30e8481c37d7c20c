-- Reserved terms are commitments: the price of the whole term is set aside with the order, charges are drawn from it,
-- and ending early re-rates the time used. Reserved rentals from before this migration have no row here and keep the
-- rule that they were ordered under.

create table commitment (
  rental_id        integer primary key references rental,
  -- The price of the whole term: what is held at the order, and the most that the term can cost.
  total_nano       bigint not null check (total_nano >= 0),
  -- Price per hour of the time used when the rental ends after so many full days, ascending from day 0 (on demand):
  -- [{"days": 0, "nanoPerHour": "2490000000"}, …]. Fixed at the order: later price changes do not reach it.
  rates            jsonb not null,
  -- When the term was over: completed, ended early, or failed. null: it runs, and its hold is total less charges.
  closed_at        timestamptz(3),
  -- Price per hour at which the time used was rated when it closed.
  closed_rate_nano bigint,
  -- It ended because of the machine, its host or the operator: the time used keeps the price of the term.
  at_fault         boolean not null default false,
  -- Charged on top of the segments because the rental ended early, and the supplier's share of that.
  rerated_nano     bigint not null default 0 check (rerated_nano >= 0),
  supplier_nano    bigint not null default 0 check (supplier_nano >= 0),
  check ((closed_at is null) = (closed_rate_nano is null))
);

-- What the operator lends an account for reserved orders. Drawing moves money from the house's `credit` to the
-- account's `available`, in the transaction that puts it on hold; every release and every payment repays it first. So
-- an account that owes has nothing available, and no balance is ever below zero: the debt is `used_nano`.
create table credit_line (
  account_id text primary key references account,
  line_nano  bigint not null check (line_nano >= 0),
  -- May exceed the line after the operator has lowered it; then nothing can be drawn until it is repaid.
  used_nano  bigint not null default 0 check (used_nano >= 0)
);

alter table ledger_account drop constraint customer_or_house;
alter table ledger_account add constraint customer_or_house check (
  case when account_id is null
    then kind in ('revenue', 'funding', 'adjustments', 'payouts', 'credit') and balance_nano is null
    else kind in ('available', 'held', 'earnings') and balance_nano is not null
  end);
insert into ledger_account (kind) values ('credit');

alter table posting drop constraint posting_kind_check;
alter table posting add constraint posting_kind_check check (kind in
  ('purchase', 'credit', 'adjustment', 'refund', 'hold', 'release', 'charge', 'payout', 'credit_draw', 'credit_repayment'))
  not valid;

-- Draws what `available` lacks of `p_needed`. Answers 'posted', 'insufficient' (more than the line still allows; nothing
-- was written), or 'enough' (the balance covers it). The caller puts the money on hold in the same transaction.
create function draw_credit(p_key text, p_account text, p_needed bigint, p_at timestamptz) returns text
language plpgsql as $$
declare
  v_short bigint;
  v_free  bigint;
begin
  perform 1 from ledger_account l where l.account_id = p_account order by l.id for update;
  select p_needed - l.balance_nano into strict v_short
    from ledger_account l where l.account_id = p_account and l.kind = 'available';
  if v_short <= 0 then return 'enough'; end if;
  select line_nano - used_nano into v_free from credit_line where account_id = p_account for update;
  if coalesce(v_free, 0) < v_short then return 'insufficient'; end if;
  perform ledger_post(p_key, 'credit_draw', p_at, p_account, 'Drawn from the credit line', null, null, null, null, null, null,
    array[ledger_account_id(null, 'credit')], array[ledger_account_id(p_account, 'available')], array[v_short]);
  update credit_line set used_nano = used_nano + v_short where account_id = p_account;
  return 'posted';
end $$;

-- Repays drawn credit with whatever is available. To be called after every posting that adds to `available`.
create function repay_credit(p_key text, p_account text, p_at timestamptz) returns void language plpgsql as $$
declare
  v_amount bigint;
begin
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

-- As before (schema/0002_ledger.sql), and drawn credit is repaid from what comes back.
create or replace function ledger_release(p_key text, p_hold text, p_at timestamptz, p_amount bigint, p_memo text) returns text
language plpgsql as $$
declare
  v_account text;
  v_answer  text;
begin
  select account_id into strict v_account from hold where key = p_hold;
  v_answer := ledger_post(p_key, 'release', p_at, v_account, p_memo, null, null, null, null, null, null,
    array[ledger_account_id(v_account, 'held')], array[ledger_account_id(v_account, 'available')], array[p_amount]);
  if v_answer = 'posted' then
    update hold set amount_nano = amount_nano - p_amount where key = p_hold;
    perform repay_credit(p_key || ':repay', v_account, p_at);
  end if;
  return v_answer;
end $$;
