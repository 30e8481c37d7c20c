-- Inference requests: one by one for some weeks, and their sums by day for ever.

-- Requests are written by COPY, a batch at a time, with two indexes: one counts each request once and finds it by id, the
-- other lists those of an account. Ids begin with the time, so that new entries lie side by side. Account and key have no
-- foreign keys, which would be looked up for each row: charge_requests looks them up once for all of them.
create table request (
  request_id    text collate "C" not null,
  account_id    text collate "C" not null,
  -- '': no key.
  api_key_id    text not null,
  operation     text not null,
  model         text not null,
  -- null: it reached none.
  deployment    text,
  -- When it ended.
  at            timestamptz(3) not null,
  status        smallint not null,
  -- answered: to the end. cut: the client went away. broken: the engine failed in the middle. failed: not answered.
  outcome       text not null check (outcome in ('answered', 'cut', 'broken', 'failed')),
  -- A stable word, where it was not answered.
  reason        text,
  streamed      boolean not null,
  input_units   bigint not null check (input_units >= 0),
  -- The number of input units that the engine had cached.
  cached_units  bigint not null check (cached_units >= 0),
  output_units  bigint not null check (output_units >= 0),
  cost_nano     bigint not null check (cost_nano >= 0),
  -- null: no byte came.
  first_byte_ms integer,
  total_ms      integer not null,
  -- The id is from the caller's `traceparent`, or created here.
  trace_id      text not null,
  primary key (request_id, at)
) partition by range (at);
create index request_by_account on request (account_id, at);
-- Rows come in the order of time, so a few blocks tell where the latest are.
create index request_by_age on request using brin (at);
-- The log of failed requests. They are few, so it costs the others nothing.
create index request_not_answered on request (account_id, at) where outcome <> 'answered';
-- Rows for a time without a partition; make_request_partitions moves them when there is one.
create table request_default partition of request default;

-- Texts of requests and answers, sealed, for accounts that keep them.
create table request_body (
  request_id text collate "C" primary key,
  -- When the request ended.
  at         timestamptz(3) not null,
  request    text,
  response   text
);
create index request_body_by_age on request_body (at);

-- Sums by day, written with each batch and kept for ever: usage and invoices read a few rows, however many requests there
-- were.
create table request_day (
  account_id   text not null,
  -- The day in UTC.
  day          date not null,
  -- '': no key.
  api_key_id   text not null,
  model        text not null,
  -- The number includes those that were not answered.
  requests     bigint not null check (requests > 0),
  answered     bigint not null check (answered >= 0),
  cost_nano    bigint not null check (cost_nano >= 0),
  input_units  bigint not null check (input_units >= 0),
  cached_units bigint not null check (cached_units >= 0),
  output_units bigint not null check (output_units >= 0),
  primary key (account_id, day, api_key_id, model)
);

-- Requests from before this instant are kept as sums only, so a request from before it cannot be distinguished from one
-- that was counted already.
create table request_thinned (
  is_only_row boolean primary key default true check (is_only_row),
  before      timestamptz(3) not null
);
insert into request_thinned (before) values ('-infinity');

-- The partitions for a span of time: by week, so that a year of them is few.
create function request_partitions() returns table (name text, until timestamptz) language sql stable as $$
  select relname::text,
    (case when relname like '%\_until\_%' then to_timestamp(right(relname, 8), 'YYYYMMDD')::timestamp
          else to_timestamp(right(relname, 8), 'YYYYMMDD')::timestamp
            + interval '1 week'
     end) at time zone 'UTC'
  from pg_inherits join pg_class on pg_class.oid = inhrelid
  where inhparent = 'request'::regclass and relname ~ '_[0-9]{8}$'
$$;

-- Creates the partitions for now and some time ahead. Returns how many were missing.
create function make_request_partitions(p_now timestamptz) returns integer language plpgsql as $$
declare
  v_made  integer := 0;
  v_from  timestamp;
  v_until timestamp;
  v_name  text;
begin
  perform pg_advisory_xact_lock(8420019);
  for v_week in 0 .. 2 loop
    v_from := date_trunc('week', p_now at time zone 'UTC') + v_week * interval '1 week';
    v_until := v_from + interval '1 week';
    v_name := 'request_' || to_char(v_from, 'YYYYMMDD');
    continue when exists (
      select 1 from request_partitions() p
      where p.name = v_name or p.name like '%\_until\_%' and p.until >= v_until at time zone 'UTC');
    execute format('create table %I (like request including defaults including constraints)', v_name);
    execute format('with moved as (delete from request_default where at >= %L and at < %L returning *) insert into %I select * from moved',
      v_from at time zone 'UTC', v_until at time zone 'UTC', v_name);
    execute format('alter table request attach partition %I for values from (%L) to (%L)',
      v_name, v_from at time zone 'UTC', v_until at time zone 'UTC');
    v_made := v_made + 1;
  end loop;
  return v_made;
end $$;
select make_request_partitions(now());

-- Drops the oldest partition whose rows are all from before `p_before`. Returns its name, or null where there is none. It
-- must not hold up settlements: it waits for the lock on the whole table first, with nothing locked, and gives up soon
-- (store/request/request-log.ts). Under the lock only catalogs change; PostgreSQL removes the files, which is nearly all
-- of the time, after it has released the locks.
create function drop_request_partition(p_before timestamptz) returns text language plpgsql as $$
declare
  v_name  text;
  v_until timestamptz;
begin
  perform pg_advisory_xact_lock(8420019);
  select p.name, p.until into v_name, v_until from request_partitions() p
    where p.until <= p_before order by p.until limit 1;
  if v_name is null then
    return null;
  end if;
  -- Settlements that are running end first; later ones see the new instant.
  lock table request in access exclusive mode;
  delete from request_default where at < v_until;
  update request_thinned set before = greatest(before, v_until);
  execute format('drop table %I', v_name);
  return v_name;
end $$;

-- The last part of a settlement, after its requests were copied into the table: adds them to the sums by day and charges
-- the purses. p_days: the sums that the requests add to each day of each account, key and model. p_dues: the charge to each
-- purse for each key and model.
create function charge_requests(p_gateway text, p_at timestamptz, p_expires timestamptz, p_days jsonb, p_dues jsonb)
returns table (hold_key text, account_id text, missing_nano bigint, borne_nano bigint) language plpgsql as $$
declare
  v_due record;
begin
  if exists (
    select 1 from (select distinct account, api_key from jsonb_to_recordset(p_days) as d (account text, api_key text)) named
    where not exists (select 1 from api_key k where k.public_id = named.api_key and k.account_id = named.account)
  ) then
    raise exception 'a request names an account or key that is not there' using errcode = 'foreign_key_violation';
  end if;
  if exists (
    select 1 from jsonb_to_recordset(p_days) as d (day date)
    where d.day < (select (before at time zone 'UTC')::date from request_thinned where before > '-infinity')
  ) then
    raise exception 'a request is from a time whose costs are kept as sums only' using errcode = 'data_exception';
  end if;

  insert into request_day as d (account_id, day, api_key_id, model, requests, answered, cost_nano, input_units, cached_units, output_units)
    select account, day, api_key, model, requests, answered, nano, input, cached, output
    from jsonb_to_recordset(p_days) as g (account text, day date, api_key text, model text, requests bigint, answered bigint,
      nano bigint, input bigint, cached bigint, output bigint)
    order by account, day, api_key, model
    on conflict on constraint request_day_pkey do update set
      requests = d.requests + excluded.requests, answered = d.answered + excluded.answered,
      cost_nano = d.cost_nano + excluded.cost_nano, input_units = d.input_units + excluded.input_units,
      cached_units = d.cached_units + excluded.cached_units, output_units = d.output_units + excluded.output_units;
  if jsonb_array_length(p_dues) = 0 then
    return;
  end if;

  perform 1 from ledger_account l
    where l.account_id in (select due ->> 'account' from jsonb_array_elements(p_dues) due) order by l.id for update;
  return query select * from refill_purses(p_gateway, p_at, p_expires, p_dues);
  for v_due in
    select * from jsonb_to_recordset(p_dues) as d (hold text, account text, api_key text, model text, nano bigint, requests integer, first text)
    order by account, hold, api_key, model
  loop
    if ledger_charge('requests:' || v_due.first, v_due.hold, p_at, v_due.nano,
         format('Inference, %s, %s request%s', v_due.model, v_due.requests, case when v_due.requests > 1 then 's' else '' end),
         null, 0, null, null, v_due.api_key, v_due.model) <> 'posted' then
      raise exception 'the requests from % on cannot be charged to %', v_due.first, v_due.hold;
    end if;
  end loop;
end $$;

-- Servers of an earlier version need these: the tables that they know, as views, and the whole settlement in one call.
create view request_cost as
  select request_id, account_id, nullif(api_key_id, '') as api_key_id, model, at, cost_nano, input_units, cached_units, output_units
  from request;
create view request_log as
  select r.*, b.request as request_body, b.response as response_body
  from request r left join request_body b using (request_id);
create view request_usage as
  select account_id, nullif(api_key_id, '') as api_key_id, model, day::timestamp at time zone 'UTC' as at, cost_nano, answered
  from request_day;

create function settle_requests(p_gateway text, p_at timestamptz, p_expires timestamptz, p_records jsonb)
returns table (hold_key text, account_id text, missing_nano bigint, borne_nano bigint) language plpgsql as $$
declare
  v_days jsonb;
  v_dues jsonb;
begin
  with given as materialized (
    select distinct on (r."requestId") r.*
    from jsonb_to_recordset(p_records) as r (
      "requestId" text, "accountId" text, "apiKeyId" text, "holdKey" text, operation text, model text, deployment text,
      at timestamptz(3), status smallint, outcome text, reason text, streamed boolean, "inputUnits" bigint,
      "cachedUnits" bigint, "outputUnits" bigint, cost bigint, "firstByteMs" integer, "totalMs" integer,
      "traceId" text, "requestBody" text, "responseBody" text)
    order by r."requestId"
  ), fresh as (
    insert into request as r (request_id, account_id, api_key_id, operation, model, deployment, at, status, outcome, reason,
      streamed, input_units, cached_units, output_units, cost_nano, first_byte_ms, total_ms, trace_id)
    select "requestId", "accountId", "apiKeyId", operation, model, deployment, at, status, outcome, reason,
      streamed, "inputUnits", "cachedUnits", "outputUnits", cost, "firstByteMs", "totalMs", "traceId"
    from given order by "requestId"
    on conflict do nothing
    returning r.request_id
  ), added as materialized (
    select given.* from given join fresh on fresh.request_id = given."requestId"
  ), bodies as (
    insert into request_body (request_id, at, request, response)
    select "requestId", at, "requestBody", "responseBody" from added
    where "requestBody" is not null or "responseBody" is not null
  )
  select
    (select jsonb_agg(g) from (
      select "accountId" as account, (at at time zone 'UTC')::date as day, "apiKeyId" as api_key, model, count(*) as requests,
        count(*) filter (where "inputUnits" > 0 or "outputUnits" > 0) as answered, sum(cost) as nano,
        sum("inputUnits") as input, sum("cachedUnits") as cached, sum("outputUnits") as output
      from added group by 1, 2, 3, 4) g),
    (select jsonb_agg(g) from (
      select "holdKey" as hold, "accountId" as account, "apiKeyId" as api_key, model,
        sum(cost) as nano, count(*) as requests, min("requestId") as first
      from added where cost > 0 group by 1, 2, 3, 4) g)
    into v_days, v_dues;
  if v_days is not null then
    return query select * from charge_requests(p_gateway, p_at, p_expires, v_days, coalesce(v_dues, '[]'));
  end if;
end $$;
