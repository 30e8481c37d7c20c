-- Money. A posting is one business fact with the caller's idempotency key; its transfers move nano-USD from one ledger
-- account to another, so a posting sums to zero by construction. Nothing here is ever updated or deleted but balances.

create table ledger_account (
  id           bigint generated always as identity primary key,
  -- null: the house.
  account_id   text references account,
  kind         text not null,
  -- null for the house: its balance is the sum of its transfers. Keeping it here would make one row that every
  -- charge of every customer waits for.
  balance_nano bigint,
  constraint customer_or_house check (
    case when account_id is null
      then kind in ('revenue', 'funding', 'adjustments', 'payouts') and balance_nano is null
      else kind in ('available', 'held', 'earnings') and balance_nano is not null
    end),
  constraint never_negative check (balance_nano >= 0)
);
create unique index ledger_account_of_account on ledger_account (account_id, kind) where account_id is not null;
create unique index ledger_account_of_house on ledger_account (kind) where account_id is null;

insert into ledger_account (kind) values ('revenue'), ('funding'), ('adjustments'), ('payouts');

create table posting (
  id         bigint generated always as identity primary key,
  key        text not null unique check (length(key) between 1 and 255),
  kind       text not null check (kind in ('purchase', 'credit', 'adjustment', 'refund', 'hold', 'release', 'charge', 'payout')),
  at         timestamptz(3) not null,
  -- On whose statement it stands.
  account_id text not null references account,
  memo       text not null,
  -- Who did it and why, where a person did. null: the meter did.
  actor      text,
  reason     text,
  -- What it is for, where it is for one thing.
  rental_id  integer,
  volume_id  integer,
  api_key_id text,
  model      text
);
create index posting_by_account on posting (account_id, at, id) where kind not in ('hold', 'release');
create index posting_by_rental on posting (rental_id, id) where rental_id is not null;

create table transfer (
  id          bigint generated always as identity primary key,
  posting_id  bigint not null references posting,
  from_id     bigint not null references ledger_account,
  to_id       bigint not null references ledger_account,
  amount_nano bigint not null check (amount_nano > 0),
  check (from_id <> to_id)
);
create index transfer_by_posting on transfer (posting_id);

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end $$;
create trigger posting_is_append_only before update or delete on posting for each row execute function refuse_change();
create trigger transfer_is_append_only before update or delete on transfer for each row execute function refuse_change();
create trigger posting_is_never_emptied before truncate on posting for each statement execute function refuse_change();
create trigger transfer_is_never_emptied before truncate on transfer for each statement execute function refuse_change();
create trigger audit_is_append_only before update or delete on audit for each row execute function refuse_change();

-- Money set aside for one thing (a rental, a volume, a gateway's lease). The holds of an account sum to its `held`.
create table hold (
  key         text primary key,
  account_id  text not null references account,
  amount_nano bigint not null check (amount_nano >= 0),
  created_at  timestamptz(3) not null,
  -- null: as long as what it is for. Else what is left goes back to the customer at that time.
  expires_at  timestamptz(3)
);
create index hold_by_account on hold (account_id);
create index hold_by_expiry on hold (expires_at) where expires_at is not null and amount_nano > 0;

create function make_ledger_accounts() returns trigger language plpgsql as $$
begin
  insert into ledger_account (account_id, kind, balance_nano)
    values (new.id, 'available', 0), (new.id, 'held', 0), (new.id, 'earnings', 0);
  return new;
end $$;
create trigger account_has_ledger after insert on account for each row execute function make_ledger_accounts();

-- null: the house. Two branches, since `is not distinct from` finds no index.
create function ledger_account_id(p_account text, p_kind text) returns bigint language plpgsql stable as $$
begin
  if p_account is null then
    return (select id from ledger_account where account_id is null and kind = p_kind);
  end if;
  return (select id from ledger_account where account_id = p_account and kind = p_kind);
end $$;

-- The only writer of postings. Answers 'posted', 'replayed' (the key was used before, for the same transfers) or
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

-- Sets money aside: available -> held, into the hold `p_hold`, which is made when it is new.
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

-- Gives money back: held -> available, out of the hold.
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
  end if;
  return v_answer;
end $$;

-- Earns money: held -> revenue, out of the hold; of it `p_supplier_amount` goes on to the supplier.
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
