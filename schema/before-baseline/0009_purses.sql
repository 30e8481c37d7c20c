-- How gateways are handed money, account for what they spent and give the rest back. Each function locks the balances
-- of the accounts it touches first, by their ids, then holds by account and key: the order of everybody who moves money.

-- Texts of requests go sooner than the rest of the log; those that still have some are found without reading the others.
create index request_log_with_bodies on request_log (at) where request_body is not null or response_body is not null;

-- What a key may still spend: its limits less what was charged, and less what its machines, volumes and purses have set
-- aside. null: it has no limit. To be asked under the lock of the account's balances.
create function key_allowance(p_account text, p_key text, p_at timestamptz) returns bigint language sql stable as $$
  select least(
      k.total_limit_nano - (select coalesce(sum(spent_nano), 0) from key_spend where api_key_id = p_key),
      k.monthly_limit_nano - coalesce((select spent_nano from key_spend
        where api_key_id = p_key and month = date_trunc('month', p_at at time zone 'UTC')::date), 0)
    )::bigint
    - (select coalesce(sum(h.amount_nano), 0)::bigint from rental r join hold h on h.key = 'rental:' || r.id
       where r.api_key_id = p_key and r.account_id = p_account and r.status in ('Pending', 'Running', 'Unknown'))
    - (select coalesce(sum(h.amount_nano), 0)::bigint from volume v join hold h on h.key = 'volume:' || v.id
       where v.api_key_id = p_key and v.account_id = p_account and v.state in ('creating', 'active'))
    - (select coalesce(sum(h.amount_nano), 0)::bigint from purse p join hold h on h.key = p.hold_key
       where p.api_key_id = p_key)
  from api_key k
  where k.public_id = p_key and num_nonnulls(k.total_limit_nano, k.monthly_limit_nano) > 0
$$;

-- As before (schema/0004_rentals.sql), but what is in a key's purses counts as spent.
create or replace function lock_order_facts(p_account text, p_key text, p_at timestamptz)
returns table (quota jsonb, gpus_in_use integer, ssh_keys text[], key_budget bigint) language plpgsql as $$
begin
  perform 1 from ledger_account l where l.account_id = p_account order by l.id for update;
  return query select
    a.quota,
    (select coalesce(sum(r.gpu_count), 0)::integer from rental r
     where r.account_id = p_account and r.status in ('Pending', 'Running', 'Unknown')),
    (select coalesce(array_agg(s.public_key order by s.created_at, s.id), '{}') from ssh_key s where s.account_id = p_account),
    key_allowance(p_account, p_key, p_at)
  from account a where a.id = p_account;
end $$;

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

-- Moves up to `p_wanted`, and at least `p_needed`, into a purse. Answers 'granted' with the amount, 'balance' or
-- 'key_limit': of which there is too little; then nothing was written.
create function top_up_purse(
  p_gateway text, p_account text, p_key text, p_wanted bigint, p_needed bigint, p_at timestamptz, p_expires timestamptz
) returns table (outcome text, hold_key text, amount bigint) language plpgsql as $$
declare
  v_hold   text := 'purse:' || p_gateway || ':' || p_account || coalesce(':' || p_key, '');
  v_needed bigint := greatest(p_needed, 1);
  v_amount bigint;
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
  if ledger_hold('purse:' || gen_random_uuid(), v_hold, p_at, p_account, v_amount, 'Set aside for inference', p_expires) <> 'posted' then
    raise exception 'the balance of % changed under its lock', p_account;
  end if;
  perform open_purse(v_hold, p_gateway, p_account, p_key, p_at);
  return query select 'granted', v_hold, v_amount;
end $$;

-- Gives up to `p_amount` of what is in a purse back, and lets the rest live until `p_expires`. Answers what went back.
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

-- Empties up to `p_limit` purses of a gateway whose money nobody spends any more. Answers how many.
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

-- Writes down requests that have ended and charges the purses, by key and model, for those that are new: however often
-- a request is sent, it counts once. Costs and log are written before any balance is locked, so that others wait for
-- the charges only, and in the order of their ids, so that two who send the same requests never deadlock.
--
-- A purse that expired has given its money back. Then what is missing is taken from the balance again, and what the
-- balance does not have is borne by the house: the request was covered when it began. Answers such purses.
create function settle_requests(p_gateway text, p_at timestamptz, p_expires timestamptz, p_records jsonb)
returns table (hold_key text, account_id text, missing_nano bigint, borne_nano bigint) language plpgsql as $$
declare
  v_due   record;
  v_dues  jsonb;
begin
  if exists (
    select 1 from (select distinct "accountId", "apiKeyId"
                   from jsonb_to_recordset(p_records) as r ("accountId" text, "apiKeyId" text)) named
    where not exists (select 1 from api_key k where k.public_id = named."apiKeyId" and k.account_id = named."accountId")
  ) then
    raise exception 'a request names an account or key that is not there' using errcode = 'foreign_key_violation';
  end if;

  with given as materialized (
    select distinct on (r."requestId") r.*
    from jsonb_to_recordset(p_records) as r (
      "requestId" text, "accountId" text, "apiKeyId" text, "holdKey" text, operation text, model text, deployment text,
      at timestamptz, status smallint, outcome text, reason text, streamed boolean, "inputUnits" bigint,
      "cachedUnits" bigint, "outputUnits" bigint, cost bigint, "firstByteMs" integer, "totalMs" integer,
      "traceId" text, "requestBody" text, "responseBody" text)
    order by r."requestId"
  ), fresh as (
    insert into request_cost as c (request_id, account_id, api_key_id, model, at, cost_nano, input_units, cached_units, output_units)
    select "requestId", "accountId", "apiKeyId", model, at, cost, "inputUnits", "cachedUnits", "outputUnits"
    from given order by "requestId"
    on conflict (request_id) do nothing
    returning c.request_id
  ), logged as (
    insert into request_log (request_id, account_id, api_key_id, operation, model, deployment, at, status, outcome, reason,
      streamed, input_units, cached_units, output_units, cost_nano, first_byte_ms, total_ms, trace_id, request_body, response_body)
    select "requestId", "accountId", "apiKeyId", operation, model, deployment, at, status, outcome, reason,
      streamed, "inputUnits", "cachedUnits", "outputUnits", cost, "firstByteMs", "totalMs", "traceId", "requestBody", "responseBody"
    from given join fresh on fresh.request_id = given."requestId"
    on conflict do nothing
  )
  select jsonb_agg(due order by due.account, due.hold, due.api_key, due.model) into v_dues from (
    select "holdKey" as hold, "accountId" as account, "apiKeyId" as api_key, model,
           sum(cost) as nano, count(*) as requests, min("requestId") as first
    from given join fresh on fresh.request_id = given."requestId"
    where cost > 0
    group by 1, 2, 3, 4) due;
  if v_dues is null then
    return;
  end if;

  perform 1 from ledger_account l
    where l.account_id in (select due ->> 'account' from jsonb_array_elements(v_dues) due) order by l.id for update;
  return query select * from refill_purses(p_gateway, p_at, p_expires, v_dues);
  for v_due in
    select * from jsonb_to_recordset(v_dues) as d (hold text, account text, api_key text, model text, nano bigint, requests integer, first text)
    order by account, hold, api_key, model
  loop
    if ledger_charge('requests:' || v_due.first, v_due.hold, p_at, v_due.nano,
         format('Inference, %s, %s request%s', v_due.model, v_due.requests, case when v_due.requests > 1 then 's' else '' end),
         null, 0, null, null, v_due.api_key, v_due.model) <> 'posted' then
      raise exception 'the requests from % on cannot be charged to %', v_due.first, v_due.hold;
    end if;
  end loop;
end $$;

-- Sees to it that each purse covers what it is about to be charged. Answers those that did not.
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
