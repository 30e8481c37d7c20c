-- Models that are sold, and the servers that run them.

create table model (
  name                 text primary key check (name ~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$'),
  kind                 text not null check (kind in ('chat', 'embedding', 'image', 'speech')),
  -- The engine of ours that runs it on the servers themselves. null: only deployments do.
  engine               text check (engine in ('llama', 'speech', 'embedding', 'picture')),
  -- Sources of the engine's files: [{ "source", "bytes", "sha256", "file" }]. null: they come with Berth.
  files                jsonb,
  -- null: not known, so a request must name its own `max_tokens`.
  context_tokens       integer check (context_tokens > 0),
  max_output_tokens    integer check (max_output_tokens > 0),
  -- Prices in nano-USD per million units: tokens in, tokens in that the engine had cached, tokens out,
  -- pixels × steps of a picture, characters spoken.
  input_nano           bigint not null default 0 check (input_nano >= 0),
  cached_nano          bigint not null default 0 check (cached_nano >= 0),
  output_nano          bigint not null default 0 check (output_nano >= 0),
  pixel_step_nano      bigint not null default 0 check (pixel_step_nano >= 0),
  character_nano       bigint not null default 0 check (character_nano >= 0),
  supports_tools       boolean not null default false,
  supports_image_input boolean not null default false,
  -- false: the model is neither listed nor served.
  enabled              boolean not null default true,
  -- The account that owns it. null: it is for everyone.
  account_id           text references account,
  -- Other accounts that may use it.
  shared_with          text[] not null default '{}',
  -- The managed deployment that serves it as a LoRA adapter of its model. null: it is no adapter.
  adapter_of           text,
  -- An adapter's prices change with those of the base model, until it gets its own; and so does its visibility.
  follows_base_price   boolean not null default false,
  follows_base_sharing boolean not null default false,
  created_at           timestamptz(3) not null,
  check ((files is null) or (engine is not null))
);
create index model_by_adapter_of on model (adapter_of) where adapter_of is not null;

-- Each model that comes with Berth is offered once, at the first start of a version that has it. One that the operator
-- removed, or excluded (BERTH_DEFAULT_MODELS), does not come back.
create table offered_model (
  name text primary key,
  at   timestamptz(3) not null
);

-- A server elsewhere that runs a model.
create table deployment (
  id               text primary key,
  model            text not null references model on delete cascade,
  -- The protocol of a chat-completion server (which also does completions and embeddings), of an image server of either
  -- kind, or of a speech server.
  protocol         text not null check (protocol in ('chat', 'images', 'txt2img', 'speech')),
  url              text not null check (length(url) between 1 and 2048),
  -- The model's name there.
  upstream_model   text not null check (length(upstream_model) between 1 and 200),
  -- The key is sealed by the vault and never shown. null: the server requires none.
  key_sealed       text,
  -- Its share beside the others. 0: it takes nothing new.
  weight           integer not null default 1 check (weight between 0 and 1000),
  concurrency      integer not null default 32 check (concurrency between 1 and 100000),
  connect_ms       integer not null default 5000 check (connect_ms between 1 and 600000),
  first_byte_ms    integer not null default 120000 check (first_byte_ms between 1 and 3600000),
  between_bytes_ms integer not null default 60000 check (between_bytes_ms between 1 and 3600000),
  total_ms         integer not null default 1800000 check (total_ms between 1 and 86400000),
  -- Whether its /metrics say how busy it is.
  reads_metrics    boolean not null default false,
  -- It takes nothing new and finishes what it has. null: in use.
  drained_at       timestamptz(3),
  created_at       timestamptz(3) not null
);
create index deployment_by_model on deployment (model, created_at);

-- A managed deployment runs a model on rented GPUs. A replica is a rental of kind container.
create table managed_deployment (
  id             text primary key,
  -- The account pays for the replicas. For a model of everyone it is the operator's account, which the house funds.
  account_id     text not null references account,
  person_id      text not null references person,
  api_key_id     text not null references api_key,
  model          text not null unique references model,
  -- Whether everyone can use the model, and the house pays.
  is_public      boolean not null,
  -- The model was created with it, and is deleted with it.
  owns_model     boolean not null,
  -- DeploymentSettings in src/contract/managed-deployment.ts: replicas, scaling, limits. A change applies at once.
  settings       jsonb not null,
  -- The newest of deployment_version.
  version        integer not null default 1 check (version >= 1),
  -- The last version that was ready. Replicas of it are kept and replaced while the newest one is not. null: none yet.
  ready_version  integer,
  -- In the rollout to the newest version, old replicas may end first when there is no spare GPU.
  in_place       boolean not null default false,
  -- ScalingState in src/domain/scaling.ts.
  scaling        jsonb not null,
  scaling_why    text not null default 'minimum',
  -- Replicas of the newest version that failed to start, in a row.
  failures       integer not null default 0 check (failures >= 0),
  failed_at      timestamptz(3),
  -- Why no replica could be ordered, as a reason of the table of reasons. null: the last order went through.
  blocked_reason text,
  blocked_detail text,
  blocked_at     timestamptz(3),
  -- When each kind of news was last recorded as an event (src/domain/serving.ts: isNews). Deployments go back and forth
  -- between states within seconds; people are told once in a while.
  told           jsonb not null default '{}',
  created_at     timestamptz(3) not null,
  updated_at     timestamptz(3) not null,
  -- Deletion was requested. The row goes when the last replica has ended.
  deleted_at     timestamptz(3)
);
create index managed_deployment_by_account on managed_deployment (account_id, created_at);
alter table model add foreign key (adapter_of) references managed_deployment on delete cascade;

-- The program and model that run. A change of them creates a new version.
create table deployment_version (
  deployment_id text not null references managed_deployment on delete cascade,
  version       integer not null check (version >= 1),
  -- DeploymentSpec in src/contract/managed-deployment.ts.
  spec          jsonb not null,
  -- Why its rollout stopped. null: it did not.
  failed_reason text,
  failed_detail text,
  created_at    timestamptz(3) not null,
  primary key (deployment_id, version)
);

create table replica (
  id            text primary key,
  deployment_id text not null references managed_deployment on delete cascade,
  version       integer not null,
  rental_id     integer not null unique references rental,
  -- ReplicaEndpoint in src/domain/serving.ts: how gateways talk to it.
  endpoint      jsonb not null,
  -- The API key of its engine, sealed.
  key_sealed    text not null,
  -- starting: has not answered yet. draining: gets no new requests. ended: its rental was told to end.
  state         text not null check (state in ('starting', 'ready', 'draining', 'ended')),
  -- Why it is draining or ended.
  reason        text,
  -- The last answer to the readiness check, for people.
  detail        text,
  created_at    timestamptz(3) not null,
  -- When the readiness check was sent that it answered first. Before it, the engine loaded; after it, it computed the
  -- first token. null: it has not answered.
  loaded_at     timestamptz(3),
  -- When it first answered. Its rental is charged from here on.
  ready_at      timestamptz(3),
  draining_at   timestamptz(3),
  ended_at      timestamptz(3)
);
create index replica_by_deployment on replica (deployment_id, state, created_at);

-- Gateways read models with their deployments and replicas, and are told of each committed change.
create function tell_models_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_models', '');
  return null;
end $$;
create trigger model_changes_are_told after insert or update or delete on model
  for each statement execute function tell_models_changed();
create trigger deployment_changes_are_told after insert or update or delete on deployment
  for each statement execute function tell_models_changed();
create trigger replica_changes_are_told after insert or update or delete on replica
  for each statement execute function tell_models_changed();
create trigger managed_deployment_changes_are_told after insert or update of settings, model, deleted_at or delete on managed_deployment
  for each statement execute function tell_models_changed();

-- How busy each gateway is with a managed model. A row that is not written again counts for a few seconds only.
create table gateway_load (
  gateway_id  text not null,
  model       text not null,
  -- Waiting and running: the average since the last row, and right now.
  outstanding double precision not null check (outstanding >= 0),
  current     integer not null check (current >= 0),
  -- Requests in flight by replica, and whether the gateway has stopped sending it more.
  replicas    jsonb not null,
  -- When it last had a request. null: not since it started.
  active_at   timestamptz(3),
  at          timestamptz(3) not null,
  primary key (gateway_id, model)
);
create index gateway_load_by_model on gateway_load (model);

-- Economics of managed deployments: the rentals that served a model, and how busy they were. Both outlive the deployment,
-- so past months stay complete.
create table replica_record (
  replica_id    text primary key,
  rental_id     integer not null unique references rental,
  deployment_id text not null,
  -- The account that pays for the rental.
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

-- Requests that a replica served, by the hour (UTC) in which they ended, counted from the requests themselves, which are
-- kept for some weeks only.
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
