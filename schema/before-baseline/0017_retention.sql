-- The request log and the costs of requests grow with every model call, so they are partitioned by time: what is older
-- than its retention is dropped a partition at a time. Before costs go, they are added up by day, account, key and model,
-- and those sums stay for ever: usage, invoices and the ledger checks read request_usage, which has both.
--
-- A filled table becomes the first partition as it is; only its primary key is built anew, which takes about 2 s per
-- million rows. Servers of the previous version may run beside it: they wait meanwhile, and find the same names.

create table request_day (
  account_id   text not null,
  -- In UTC.
  day          date not null,
  -- '': no key.
  api_key_id   text not null,
  model        text not null,
  -- With those that were not answered.
  requests     bigint not null check (requests > 0),
  answered     bigint not null check (answered >= 0),
  cost_nano    bigint not null check (cost_nano >= 0),
  input_units  bigint not null check (input_units >= 0),
  cached_units bigint not null check (cached_units >= 0),
  output_units bigint not null check (output_units >= 0),
  primary key (account_id, day, api_key_id, model)
);

-- Costs of requests from before this instant are kept as sums only, so a request from before it cannot be told from one
-- that was counted already.
create table request_thinned (
  is_only_row boolean primary key default true check (is_only_row),
  before      timestamptz(3) not null
);
insert into request_thinned (before) values ('-infinity');

-- A request is sent again with the instant it had, so (request_id, at) counts it once; and ids are ours, and random.
do $$
declare
  v_table  text;
  v_legacy text;
  v_index  text;
begin
  foreach v_table in array array['request_log', 'request_cost'] loop
    v_legacy := v_table || '_legacy';
    execute format('lock table %I in access exclusive mode', v_table);
    execute format('alter table %I rename to %I', v_table, v_legacy);
    execute format('alter table %I drop constraint %I', v_legacy, v_table || '_pkey');
    for v_index in select indexrelid::regclass::text from pg_index where indrelid = v_legacy::regclass loop
      execute format('alter index %I rename to %I', v_index, v_index || '_legacy');
    end loop;
    execute format('alter table %I add constraint %I primary key (request_id, at)', v_legacy, v_legacy || '_pkey');
    execute format('create table %I (like %I including defaults including constraints) partition by range (at)', v_table, v_legacy);
    execute format('alter table %I add primary key (request_id, at)', v_table);
  end loop;
end $$;

create index request_log_by_account on request_log (account_id, at desc, request_id);
create index request_log_by_age on request_log using brin (at);
create index request_log_with_bodies on request_log (at) where request_body is not null or response_body is not null;
create index request_cost_by_account on request_cost (account_id, at);

do $$
declare
  v_table  text;
  v_unit   text;
  v_legacy text;
  v_last   timestamptz;
  v_until  timestamp;
begin
  for v_table, v_unit in values ('request_log', 'day'), ('request_cost', 'month') loop
    v_legacy := v_table || '_legacy';
    execute format('select max(at) from %I', v_legacy) into v_last;
    if v_last is null then
      execute format('drop table %I', v_legacy);
    else
      v_until := date_trunc(v_unit, greatest(now(), v_last) at time zone 'UTC') + ('1 ' || v_unit)::interval;
      execute format('alter table %I attach partition %I for values from (minvalue) to (%L)', v_table, v_legacy, v_until at time zone 'UTC');
      execute format('alter table %I rename to %I', v_legacy, v_table || '_until_' || to_char(v_until, 'YYYYMMDD'));
    end if;
    -- What comes for a time without a partition; make_request_partitions moves it when there is one.
    execute format('create table %I partition of %I default', v_table || '_default', v_table);
  end loop;
end $$;

-- The partitions of a table that hold a span of time: log by day, costs by month.
create function request_partitions(p_table text) returns table (name text, until timestamptz) language sql stable as $$
  select relname::text,
    (case when relname like '%\_until\_%' then to_timestamp(right(relname, 8), 'YYYYMMDD')::timestamp
          else to_timestamp(right(relname, 8), 'YYYYMMDD')::timestamp
            + case p_table when 'request_log' then interval '1 day' else interval '1 month' end
     end) at time zone 'UTC'
  from pg_inherits join pg_class on pg_class.oid = inhrelid
  where inhparent = p_table::regclass and relname ~ '_[0-9]{8}$'
$$;

-- Makes the partitions for now and some time ahead. Answers how many were missing.
create function make_request_partitions(p_now timestamptz) returns integer language plpgsql as $$
declare
  v_made  integer := 0;
  v_table text;
  v_unit  text;
  v_ahead integer;
  v_from  timestamp;
  v_until timestamp;
  v_name  text;
begin
  perform pg_advisory_xact_lock(8420019);
  for v_table, v_unit, v_ahead in values ('request_log', 'day', 7), ('request_cost', 'month', 2) loop
    for v_step in 0 .. v_ahead loop
      v_from := date_trunc(v_unit, p_now at time zone 'UTC') + v_step * ('1 ' || v_unit)::interval;
      v_until := v_from + ('1 ' || v_unit)::interval;
      v_name := v_table || '_' || to_char(v_from, 'YYYYMMDD');
      continue when exists (
        select 1 from request_partitions(v_table) p
        where p.name = v_name or p.name like '%\_until\_%' and p.until >= v_until at time zone 'UTC');
      execute format('create table %I (like %I including defaults including constraints)', v_name, v_table);
      execute format('with moved as (delete from %I where at >= %L and at < %L returning *) insert into %I select * from moved',
        v_table || '_default', v_from at time zone 'UTC', v_until at time zone 'UTC', v_name);
      execute format('alter table %I attach partition %I for values from (%L) to (%L)',
        v_table, v_name, v_from at time zone 'UTC', v_until at time zone 'UTC');
      v_made := v_made + 1;
    end loop;
  end loop;
  return v_made;
end $$;

-- Adds the costs of a table to the sums by day.
create function add_up_requests(p_name text, p_before timestamptz) returns void language plpgsql as $$
begin
  execute format('
    insert into request_day as d (account_id, day, api_key_id, model, requests, answered, cost_nano, input_units, cached_units, output_units)
    select account_id, (at at time zone ''UTC'')::date, coalesce(api_key_id, ''''), model, count(*),
      count(*) filter (where input_units > 0 or output_units > 0), sum(cost_nano), sum(input_units), sum(cached_units), sum(output_units)
    from %I where at < %L group by 1, 2, 3, 4
    on conflict (account_id, day, api_key_id, model) do update set
      requests = d.requests + excluded.requests, answered = d.answered + excluded.answered,
      cost_nano = d.cost_nano + excluded.cost_nano, input_units = d.input_units + excluded.input_units,
      cached_units = d.cached_units + excluded.cached_units, output_units = d.output_units + excluded.output_units', p_name, p_before);
end $$;

-- Drops the oldest partition whose rows are all from before `p_before`. Answers its name, or null where there is none.
create function drop_request_partition(p_table text, p_before timestamptz) returns text language plpgsql as $$
declare
  v_name  text;
  v_until timestamptz;
begin
  perform pg_advisory_xact_lock(8420019);
  select p.name, p.until into v_name, v_until from request_partitions(p_table) p
    where p.until <= p_before order by p.until limit 1;
  if v_name is null then
    return null;
  end if;
  if p_table = 'request_cost' then
    -- Stays readable, but nothing is added to it any more; what strayed into the default partition goes with it.
    execute format('lock table %I, request_cost_default in share row exclusive mode', v_name);
    perform add_up_requests(v_name, v_until);
    perform add_up_requests('request_cost_default', v_until);
    delete from request_cost_default where at < v_until;
    update request_thinned set before = greatest(before, v_until);
  end if;
  execute format('drop table %I', v_name);
  return v_name;
end $$;

select make_request_partitions(now());

-- Every request that was ever settled, one by one or, where they were thinned, by day (at its first instant).
create view request_usage as
  select account_id, api_key_id, model, at, cost_nano,
    case when input_units > 0 or output_units > 0 then 1::bigint else 0 end as answered
  from request_cost
  union all
  select account_id, nullif(api_key_id, ''), model, day::timestamp at time zone 'UTC', cost_nano, answered
  from request_day;

-- As before (schema/0009_purses.sql), but a request is known by its id and its instant, since the tables are partitioned
-- by it, and one from the time that was thinned is refused.
create or replace function settle_requests(p_gateway text, p_at timestamptz, p_expires timestamptz, p_records jsonb)
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

  if exists (
    select 1 from jsonb_to_recordset(p_records) as r (at timestamptz) where r.at < (select before from request_thinned)
  ) then
    raise exception 'a request is from a time whose costs are kept as sums only' using errcode = 'data_exception';
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
    on conflict (request_id, at) do nothing
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
