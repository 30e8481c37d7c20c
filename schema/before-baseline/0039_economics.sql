-- Economics of managed deployments: which rentals served which model, and how busy they were. Both outlive the
-- deployment, so past months stay complete.

create table replica_record (
  replica_id    text primary key,
  rental_id     integer not null unique references rental,
  deployment_id text not null,
  -- Pays for the rental.
  account_id    text not null references account,
  model         text not null,
  is_public     boolean not null,
  created_at    timestamptz(3) not null,
  -- When it first answered. null: not yet, or never.
  ready_at      timestamptz(3),
  -- null: it lives.
  ended_at      timestamptz(3)
);
create index replica_record_by_deployment on replica_record (deployment_id, created_at);
create index replica_record_by_age on replica_record (created_at);
create index replica_record_living on replica_record (replica_id) where ended_at is null;

-- A trigger, so that servers of the previous version write it too.
create function record_replica() returns trigger language plpgsql as $$
begin
  insert into replica_record as r (replica_id, rental_id, deployment_id, account_id, model, is_public, created_at, ready_at, ended_at)
    select new.id, new.rental_id, d.id, d.account_id, d.model, d.is_public, new.created_at, new.ready_at, new.ended_at
    from managed_deployment d where d.id = new.deployment_id
    on conflict (replica_id) do update set ready_at = excluded.ready_at, ended_at = excluded.ended_at;
  return null;
end $$;
create trigger replica_is_recorded after insert or update of ready_at, ended_at on replica
  for each row execute function record_replica();

insert into replica_record (replica_id, rental_id, deployment_id, account_id, model, is_public, created_at, ready_at, ended_at)
  select p.id, p.rental_id, d.id, d.account_id, d.model, d.is_public, p.created_at, p.ready_at, p.ended_at
  from replica p join managed_deployment d on d.id = p.deployment_id;

-- Requests that a replica served, by the hour (UTC) in which they ended, counted from the request log, which is kept for
-- some weeks only.
create table replica_hour (
  replica_id   text not null references replica_record,
  hour         timestamptz(3) not null,
  -- The models of the requests: the deployment's own, and adapters on it.
  models       text[] not null,
  requests     bigint not null check (requests >= 0),
  input_units  bigint not null check (input_units >= 0),
  cached_units bigint not null check (cached_units >= 0),
  output_units bigint not null check (output_units >= 0),
  -- Durations added up, the wait for a replica included: over time, this is the number of outstanding requests.
  request_ms   bigint not null check (request_ms >= 0),
  -- Time of the hour with at least one request.
  busy_ms      integer not null check (busy_ms between 0 and 3600000),
  primary key (replica_id, hour)
);

-- Counts an hour again. A request that ends in the next hour was busy in this one too.
create function count_replica_hour(p_hour timestamptz) returns integer language plpgsql as $$
declare
  v_end   timestamptz := p_hour + interval '1 hour';
  v_count integer;
begin
  insert into replica_hour as h (replica_id, hour, models, requests, input_units, cached_units, output_units, request_ms, busy_ms)
    select s.replica_id, p_hour,
      coalesce(array_agg(distinct s.model) filter (where s.at < v_end), '{}'),
      count(*) filter (where s.at < v_end),
      coalesce(sum(s.input_units) filter (where s.at < v_end), 0),
      coalesce(sum(s.cached_units) filter (where s.at < v_end), 0),
      coalesce(sum(s.output_units) filter (where s.at < v_end), 0),
      coalesce(sum(s.total_ms) filter (where s.at < v_end), 0),
      coalesce((select sum(extract(epoch from upper(busy) - lower(busy)) * 1000)::integer from unnest(range_agg(s.span)) busy), 0)
    from (
      select r.replica_id, l.model, l.at, l.input_units, l.cached_units, l.output_units, l.total_ms,
        tstzrange(least(greatest(l.at - l.total_ms * interval '1 millisecond', r.ready_at, p_hour), v_end), least(greatest(l.at, p_hour), v_end)) as span
      from request_log l join replica_record r on r.replica_id = l.deployment
      where l.at >= p_hour and l.at < v_end + interval '1 hour' and r.ready_at <= l.at
    ) s
    group by s.replica_id
    having count(*) filter (where s.at < v_end) > 0 or not isempty(range_merge(range_agg(s.span)))
    on conflict (replica_id, hour) do update set models = excluded.models, requests = excluded.requests,
      input_units = excluded.input_units, cached_units = excluded.cached_units, output_units = excluded.output_units,
      request_ms = excluded.request_ms, busy_ms = excluded.busy_ms;
  get diagnostics v_count = row_count;
  return v_count;
end $$;

-- Income from models of all accounts in a period.
create index ledger_day_of_models on ledger_day (day, model) where service = 'models';
