-- Managed deployments: models that run on rented GPUs. A replica is a rental of kind container.

-- Whose model it is. null: for everyone.
alter table model add column account_id text references account;
-- Other accounts that may use it.
alter table model add column shared_with text[] not null default '{}';

create table managed_deployment (
  id            text primary key,
  -- Pays for the replicas. For a model of everyone: the operator's account, which the house funds.
  account_id    text not null references account,
  person_id     text not null references person,
  api_key_id    text not null references api_key,
  model         text not null unique references model,
  -- Whether everyone can use the model, and the house pays.
  is_public     boolean not null,
  -- The model was created with it, and is deleted with it.
  owns_model    boolean not null,
  -- DeploymentSettings in src/contract/managed-deployment.ts: replicas, scaling, limits. A change applies at once.
  settings      jsonb not null,
  -- The newest of deployment_version.
  version       integer not null default 1 check (version >= 1),
  -- The last version that was ready. Replicas of it are kept and replaced while the newest one is not. null: none yet.
  ready_version integer,
  -- Of the rollout to the newest version: old replicas may end first when there is no spare GPU.
  in_place      boolean not null default false,
  -- ScalingState in src/domain/scaling.ts.
  scaling       jsonb not null,
  scaling_why   text not null default 'minimum',
  -- Replicas of the newest version that failed to start, in a row.
  failures      integer not null default 0 check (failures >= 0),
  failed_at     timestamptz(3),
  -- Why no replica could be ordered, as a reason of the table of reasons. null: the last order went through.
  blocked_reason text,
  blocked_detail text,
  blocked_at    timestamptz(3),
  created_at    timestamptz(3) not null,
  updated_at    timestamptz(3) not null,
  -- Deletion was requested. The row goes when the last replica has ended.
  deleted_at    timestamptz(3)
);
create index managed_deployment_by_account on managed_deployment (account_id, created_at);

-- What runs. A change of it makes a new version.
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
  -- When it first answered. Its rental is charged from here on.
  ready_at      timestamptz(3),
  draining_at   timestamptz(3),
  ended_at      timestamptz(3)
);
create index replica_by_deployment on replica (deployment_id, state, created_at);

-- Gateways read replicas with the models.
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
  -- By replica: requests in flight, and whether the gateway has stopped sending it more.
  replicas    jsonb not null,
  -- When it last had a request. null: not since it started.
  active_at   timestamptz(3),
  at          timestamptz(3) not null,
  primary key (gateway_id, model)
);
create index gateway_load_by_model on gateway_load (model);
