-- Money. A posting is one business fact with the caller's idempotency key; its transfers move nano-USD from one ledger
-- account to another, so a posting sums to zero by construction. Nothing here is ever updated or deleted but balances.

create table ledger_account (
  id           bigint generated always as identity primary key,
  -- null: the house.
  account_id   text references account,
  -- The house owes what it buys (`payables`) and books it as `cost_of_goods`; it lends from `credit`.
  kind         text not null,
  -- null for the house: its balance is the sum of its transfers. A balance here would be one row that every charge of
  -- every customer waits for.
  balance_nano bigint,
  constraint customer_or_house check (
    case when account_id is null
      then kind in ('revenue', 'funding', 'adjustments', 'payouts', 'credit', 'cost_of_goods', 'payables') and balance_nano is null
      else kind in ('available', 'held', 'earnings') and balance_nano is not null
    end),
  constraint never_negative check (balance_nano >= 0)
);
create unique index ledger_account_of_account on ledger_account (account_id, kind) where account_id is not null;
create unique index ledger_account_of_house on ledger_account (kind) where account_id is null;

insert into ledger_account (kind) values
  ('revenue'), ('funding'), ('adjustments'), ('payouts'), ('credit'), ('cost_of_goods'), ('payables');

create function make_ledger_accounts() returns trigger language plpgsql as $$
begin
  insert into ledger_account (account_id, kind, balance_nano)
    values (new.id, 'available', 0), (new.id, 'held', 0), (new.id, 'earnings', 0);
  return new;
end $$;
create trigger account_has_ledger after insert on account for each row execute function make_ledger_accounts();

create table posting (
  id         bigint generated always as identity primary key,
  key        text not null unique check (length(key) between 1 and 255),
  kind       text not null check (kind in ('purchase', 'credit', 'adjustment', 'refund', 'hold', 'release', 'charge', 'payout',
             'credit_draw', 'credit_repayment', 'cost')),
  at         timestamptz(3) not null,
  -- The account whose statement has it. null: a cost, which is on no customer's statement.
  account_id text references account,
  memo       text not null,
  -- The person who made it, and why. null: the meter made it.
  actor      text,
  reason     text,
  -- The one thing that it is for, if it is for one.
  rental_id  integer,
  volume_id  integer,
  api_key_id text,
  model      text,
  constraint posting_has_account check (account_id is not null or kind = 'cost')
);
create index posting_by_account on posting (account_id, at, id) where kind not in ('hold', 'release');
create index posting_by_rental on posting (rental_id, id) where rental_id is not null;
-- Payments, machines and storage, of accounts whose requests make several charges per second.
create index posting_but_inference on posting (account_id, at, id)
  where kind not in ('hold', 'release') and (kind <> 'charge' or model is null);

create table transfer (
  id          bigint generated always as identity primary key,
  posting_id  bigint not null references posting,
  from_id     bigint not null references ledger_account,
  to_id       bigint not null references ledger_account,
  amount_nano bigint not null check (amount_nano > 0),
  check (from_id <> to_id)
);
create index transfer_by_posting on transfer (posting_id);

create trigger posting_is_append_only before update or delete on posting for each row execute function refuse_change();
create trigger transfer_is_append_only before update or delete on transfer for each row execute function refuse_change();
create trigger posting_is_never_emptied before truncate on posting for each statement execute function refuse_change();
create trigger transfer_is_never_emptied before truncate on transfer for each statement execute function refuse_change();

-- Money set aside for one thing: a rental, a volume, a gateway's purse. The holds of an account sum to its `held`.
create table hold (
  key         text primary key,
  account_id  text not null references account,
  amount_nano bigint not null check (amount_nano >= 0),
  created_at  timestamptz(3) not null,
  -- When the remaining money goes back to the customer. null: it lasts as long as the thing that it is for.
  expires_at  timestamptz(3)
);
create index hold_by_account on hold (account_id);
create index hold_by_expiry on hold (expires_at) where expires_at is not null and amount_nano > 0;

-- Reserved orders may draw on what the operator lends an account. Drawing moves money from the house's `credit` to the
-- account's `available`, in the transaction that puts it on hold; every release and every payment repays it first. So
-- an account that owes has nothing available, and no balance is ever below zero: the debt is `used_nano`.
create table credit_line (
  account_id text primary key references account,
  line_nano  bigint not null check (line_nano >= 0),
  -- It exceeds the line after the operator has lowered it; then nothing can be drawn until it is repaid.
  used_nano  bigint not null default 0 check (used_nano >= 0)
);

-- Money that the house has put into an account for the GPUs of models for everyone, less the cost of its ended replicas.
-- The cost of living ones is in their segments. The rest goes back to `revenue` when it is not needed.
create table house_money (
  account_id text primary key references account,
  given_nano bigint not null
);

-- The last times that the whole ledger was recounted, by the daily loop or by an operator.
create table ledger_check (
  id       bigint generated always as identity primary key,
  at       timestamptz(3) not null,
  took_ms  integer not null check (took_ms >= 0),
  findings integer not null check (findings >= 0)
);

-- The id of an account's ledger account; null is the house. Two branches, since `is not distinct from` uses no index.
create function ledger_account_id(p_account text, p_kind text) returns bigint language plpgsql stable as $$
begin
  if p_account is null then
    return (select id from ledger_account where account_id is null and kind = p_kind);
  end if;
  return (select id from ledger_account where account_id = p_account and kind = p_kind);
end $$;

-- The only writer of single postings. Returns 'posted', 'replayed' (the key was used before, for the same transfers) or
-- 'insufficient' (a customer's balance does not cover it; nothing was written).
create function ledger_post(
  p_key text, p_kind text, p_at timestamptz, p_account text, p_memo text, p_actor text, p_reason text,
  p_rental integer, p_volume integer, p_api_key text, p_model text,
  p_from bigint[], p_to bigint[], p_amount bigint[]
) returns text language plpgsql as $$
declare
  v_posting bigint;
begin
  if cardinality(p_from) = 0 or cardinality(p_from) <> cardinality(p_to) or cardinality(p_from) <> cardinality(p_amount) then
    raise exception 'posting % moves nothing', p_key using errcode = 'check_violation';
  end if;
  -- Balances are locked in the order of their ids, and before the posting is written, so that two posters of the same
  -- account queue here and never deadlock.
  perform 1 from ledger_account where id = any (p_from || p_to) and account_id is not null order by id for update;

  select id into v_posting from posting where key = p_key;
  if found then
    if (select array_agg((from_id, to_id, amount_nano)::text order by id) from transfer where posting_id = v_posting)
       is distinct from (select array_agg((f, t, a)::text order by n) from unnest(p_from, p_to, p_amount) with ordinality as leg (f, t, a, n)) then
      raise exception 'posting key % was used for other transfers', p_key using errcode = 'unique_violation';
    end if;
    return 'replayed';
  end if;

  if exists (
    select 1
    from ledger_account l
    join (select id, sum(change) as change
          from (select unnest(p_from) as id, -unnest(p_amount) as change
                union all select unnest(p_to), unnest(p_amount)) legs
          group by id) c using (id)
    where l.balance_nano + c.change < 0
  ) then
    return 'insufficient';
  end if;

  insert into posting (key, kind, at, account_id, memo, actor, reason, rental_id, volume_id, api_key_id, model)
    values (p_key, p_kind, p_at, p_account, p_memo, p_actor, p_reason, p_rental, p_volume, p_api_key, p_model)
    returning id into v_posting;
  insert into transfer (posting_id, from_id, to_id, amount_nano)
    select v_posting, f, t, a from unnest(p_from, p_to, p_amount) with ordinality as leg (f, t, a, n) order by n;
  update ledger_account l set balance_nano = l.balance_nano + c.change
    from (select id, sum(change) as change
          from (select unnest(p_from) as id, -unnest(p_amount) as change
                union all select unnest(p_to), unnest(p_amount)) legs
          group by id) c
    where l.id = c.id and l.account_id is not null;
  return 'posted';
end $$;

-- Sets money aside: available → held, into the hold `p_hold`, which is created if it is new.
create function ledger_hold(
  p_key text, p_hold text, p_at timestamptz, p_account text, p_amount bigint, p_memo text, p_expires timestamptz
) returns text language plpgsql as $$
declare
  v_answer text;
begin
  v_answer := ledger_post(p_key, 'hold', p_at, p_account, p_memo, null, null, null, null, null, null,
    array[ledger_account_id(p_account, 'available')], array[ledger_account_id(p_account, 'held')], array[p_amount]);
  if v_answer = 'posted' then
    insert into hold (key, account_id, amount_nano, created_at, expires_at)
      values (p_hold, p_account, p_amount, p_at, p_expires)
      on conflict (key) do update set amount_nano = hold.amount_nano + excluded.amount_nano, expires_at = excluded.expires_at;
  end if;
  return v_answer;
end $$;

-- Draws the part of `p_needed` that `available` lacks. Returns 'posted', 'insufficient' (more than the line still allows;
-- nothing was written), or 'enough' (the balance covers it). The caller puts the money on hold in the same transaction.
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

-- Repays drawn credit with all that is available. It is called after every posting that adds to `available`.
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

-- Gives money back: held → available, out of the hold. Drawn credit is repaid from it.
create function ledger_release(p_key text, p_hold text, p_at timestamptz, p_amount bigint, p_memo text) returns text
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

-- Earns money: held → revenue, out of the hold; `p_supplier_amount` of it goes on to the supplier.
create function ledger_charge(
  p_key text, p_hold text, p_at timestamptz, p_amount bigint, p_memo text,
  p_supplier text, p_supplier_amount bigint, p_rental integer, p_volume integer, p_api_key text, p_model text
) returns text language plpgsql as $$
declare
  v_account text;
  v_answer  text;
  v_from    bigint[];
  v_to      bigint[];
  v_amount  bigint[];
begin
  select account_id into strict v_account from hold where key = p_hold;
  v_from := array[ledger_account_id(v_account, 'held')];
  v_to := array[ledger_account_id(null, 'revenue')];
  v_amount := array[p_amount];
  if p_supplier is not null and p_supplier_amount > 0 then
    v_from := v_from || ledger_account_id(null, 'revenue');
    v_to := v_to || ledger_account_id(p_supplier, 'earnings');
    v_amount := v_amount || p_supplier_amount;
  end if;
  v_answer := ledger_post(p_key, 'charge', p_at, v_account, p_memo, null, null, p_rental, p_volume, p_api_key, p_model,
    v_from, v_to, v_amount);
  if v_answer = 'posted' then
    update hold set amount_nano = amount_nano - p_amount where key = p_hold;
    if p_api_key is not null then
      insert into key_spend (api_key_id, month, spent_nano)
        values (p_api_key, date_trunc('month', p_at at time zone 'UTC')::date, p_amount)
        on conflict (api_key_id, month) do update set spent_nano = key_spend.spent_nano + excluded.spent_nano;
    end if;
  end if;
  return v_answer;
end $$;
