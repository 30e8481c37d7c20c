-- Purses: money that gateways spend on inference requests without a round trip for each. Each function locks the balances
-- of the accounts that it touches first, by their ids, then holds by account and key: the order of everybody who moves
-- money.

-- A server that answers inference requests. Its id is in its data folder, beside its journal.
create table gateway (
  id      text primary key check (length(id) between 1 and 64),
  seen_at timestamptz(3) not null
);

-- Money of an account that a gateway may spend on its own: a hold with an end. A key with a spending limit has a purse of
-- its own, since the money in it counts against the limit.
create table purse (
  hold_key   text primary key references hold (key),
  gateway_id text not null references gateway,
  account_id text not null references account,
  api_key_id text references api_key
);
create index purse_by_gateway on purse (gateway_id);
create index purse_by_key on purse (api_key_id) where api_key_id is not null;

-- The amount that a key may still spend: its limits less what was charged, and less what its machines, volumes and purses
-- have set aside. null: it has no limit. The caller has locked the account's balances.
create function key_allowance(p_account text, p_key text, p_at timestamptz) returns bigint language sql stable as $$
  select least(
      k.total_limit_nano - (select coalesce(sum(spent_nano), 0) from key_spend where api_key_id = p_key),
      k.monthly_limit_nano - coalesce((select spent_nano from key_spend
        where api_key_id = p_key and month = date_trunc('month', p_at at time zone 'UTC')::date), 0)
    )::bigint
    - (select coalesce(sum(h.amount_nano), 0)::bigint from rental r join hold h on h.key = 'rental:' || r.id
       where r.api_key_id = p_key and r.account_id = p_account
         and r.status in ('Pending', 'Running', 'Unknown', 'Stopping', 'Stopped', 'Starting'))
    - (select coalesce(sum(h.amount_nano), 0)::bigint from volume v join hold h on h.key = 'volume:' || v.id
       where v.api_key_id = p_key and v.account_id = p_account and v.state in ('creating', 'active'))
    - (select coalesce(sum(h.amount_nano), 0)::bigint from purse p join hold h on h.key = p.hold_key
       where p.api_key_id = p_key)
  from api_key k
  where k.public_id = p_key and num_nonnulls(k.total_limit_nano, k.monthly_limit_nano) > 0
$$;

-- The purse of an account, or of a key with limits, at a gateway. A gateway that was forgotten is known again.
create function open_purse(p_hold text, p_gateway text, p_account text, p_key text, p_at timestamptz) returns void
language plpgsql as $$
begin
  if exists (select 1 from purse where hold_key = p_hold) then
    return;
  end if;
  insert into gateway (id, seen_at) values (p_gateway, p_at) on conflict do nothing;
  insert into purse (hold_key, gateway_id, account_id, api_key_id) values (p_hold, p_gateway, p_account, p_key)
    on conflict do nothing;
end $$;

-- Moves up to `p_wanted`, and at least `p_needed`, into a purse. Returns 'granted' with the amount, or the limit that is too
-- low: 'balance', 'key_limit' or 'budget'; then nothing was written.
create function top_up_purse(
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

-- Gives up to `p_amount` of a purse back, and lets the rest live until `p_expires`. Returns the amount that went back.
create function give_back_purse(p_hold text, p_amount bigint, p_at timestamptz, p_expires timestamptz) returns bigint
language plpgsql as $$
declare
  v_amount bigint;
begin
  perform 1 from ledger_account l where l.account_id = (select account_id from hold where key = p_hold) order by l.id for update;
  update hold set expires_at = greatest(expires_at, p_expires) where key = p_hold
    returning least(amount_nano, p_amount) into v_amount;
  if v_amount > 0 then
    perform ledger_release('purse:' || gen_random_uuid(), p_hold, p_at, v_amount, 'Not used for inference');
  end if;
  return coalesce(v_amount, 0);
end $$;

-- Empties up to `p_limit` purses of a gateway whose money nobody spends any more. Returns their number.
create function release_purses(p_gateway text, p_at timestamptz, p_limit integer) returns integer language plpgsql as $$
declare
  v_holds text[] := array(
    select h.key from purse p join hold h on h.key = p.hold_key
    where p.gateway_id = p_gateway and h.amount_nano > 0 order by h.account_id, h.key limit p_limit);
  v_hold  record;
begin
  perform 1 from ledger_account l
    where l.account_id in (select account_id from hold where key = any (v_holds)) order by l.id for update;
  for v_hold in select key, amount_nano from hold where key = any (v_holds) and amount_nano > 0 order by account_id, key loop
    perform ledger_release('purse:' || gen_random_uuid(), v_hold.key, p_at, v_hold.amount_nano, 'Not used for inference');
  end loop;
  return cardinality(v_holds);
end $$;

-- Ensures that each purse covers what it is about to be charged. A purse that expired has given its money back. Then the
-- missing money is taken from the balance again, and the house bears what the balance lacks: the request was covered when
-- it began. Returns such purses.
create function refill_purses(p_gateway text, p_at timestamptz, p_expires timestamptz, p_dues jsonb)
returns table (hold_key text, account_id text, missing_nano bigint, borne_nano bigint) language plpgsql as $$
declare
  v_purse     record;
  v_available bigint;
  v_borne     bigint;
begin
  for v_purse in
    select d.hold, d.account, min(d.api_key) as api_key, (sum(d.nano) - coalesce(max(h.amount_nano), 0))::bigint as missing,
           max(h.account_id) as owner
    from jsonb_to_recordset(p_dues) as d (hold text, account text, api_key text, nano bigint)
    left join hold h on h.key = d.hold
    group by d.hold, d.account order by d.account, d.hold
  loop
    if v_purse.hold is null or v_purse.hold not like 'purse:%' or v_purse.owner <> v_purse.account then
      raise exception 'requests of % name the purse %', v_purse.account, v_purse.hold;
    end if;
    continue when v_purse.missing <= 0;
    select l.balance_nano into strict v_available
      from ledger_account l where l.account_id = v_purse.account and l.kind = 'available';
    v_borne := greatest(0, v_purse.missing - v_available);
    if v_borne > 0 then
      perform ledger_post('borne:' || gen_random_uuid(), 'adjustment', p_at, v_purse.account,
        'Inference that the balance no longer covered', 'gateway',
        'What was set aside had gone back before the requests were billed; the house bears what is missing', null, null, null, null,
        array[ledger_account_id(null, 'adjustments')], array[ledger_account_id(v_purse.account, 'available')], array[v_borne]);
    end if;
    if ledger_hold('purse:' || gen_random_uuid(), v_purse.hold, p_at, v_purse.account, v_purse.missing,
         'Set aside for inference', p_expires) <> 'posted' then
      raise exception 'the balance of % changed under its lock', v_purse.account;
    end if;
    perform open_purse(v_purse.hold, p_gateway, v_purse.account,
      case when right(v_purse.hold, length(v_purse.account) + 1) = ':' || v_purse.account then null else v_purse.api_key end, p_at);
    return query select v_purse.hold, v_purse.account, v_purse.missing, v_borne;
  end loop;
end $$;
