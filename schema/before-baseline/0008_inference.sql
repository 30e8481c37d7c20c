-- Models that are sold, where they run, and the money that gateways spend without asking the database each time.

create table model (
  name               text primary key check (name ~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$'),
  kind               text not null check (kind in ('chat', 'embedding', 'image', 'speech')),
  -- Which engine of ours runs it on the servers themselves. null: only the deployments do.
  engine             text check (engine in ('llama', 'speech', 'embedding')),
  -- Where the engine's files come from: [{ "source", "bytes", "sha256", "file" }]. null: they come with Berth.
  files              jsonb,
  -- null: not known, so a request must name its own `max_tokens`.
  context_tokens     integer check (context_tokens > 0),
  max_output_tokens  integer check (max_output_tokens > 0),
  -- Prices in nano-USD per million units: tokens in, tokens in that the engine had cached, tokens out,
  -- pixels × steps of a picture, characters spoken.
  input_nano         bigint not null default 0 check (input_nano >= 0),
  cached_nano        bigint not null default 0 check (cached_nano >= 0),
  output_nano        bigint not null default 0 check (output_nano >= 0),
  pixel_step_nano    bigint not null default 0 check (pixel_step_nano >= 0),
  character_nano     bigint not null default 0 check (character_nano >= 0),
  supports_tools     boolean not null default false,
  supports_image_input boolean not null default false,
  -- Not enabled: not listed and not served, but kept.
  enabled            boolean not null default true,
  created_at         timestamptz(3) not null,
  check ((files is null) or (engine is not null))
);

-- A server elsewhere that runs a model.
create table deployment (
  id              text primary key,
  model           text not null references model on delete cascade,
  -- How it is spoken to: a chat-completion server (which also does completions and embeddings), an image server of
  -- either kind, a speech server.
  protocol        text not null check (protocol in ('chat', 'images', 'txt2img', 'speech')),
  url             text not null check (length(url) between 1 and 2048),
  -- What the model is called there.
  upstream_model  text not null check (length(upstream_model) between 1 and 200),
  -- Sealed by the vault, never shown. null: the server asks for none.
  key_sealed      text,
  -- 0: takes nothing new. Otherwise its share beside the others.
  weight          integer not null default 1 check (weight between 0 and 1000),
  concurrency     integer not null default 32 check (concurrency between 1 and 100000),
  connect_ms      integer not null default 5000 check (connect_ms between 1 and 600000),
  first_byte_ms   integer not null default 120000 check (first_byte_ms between 1 and 3600000),
  between_bytes_ms integer not null default 60000 check (between_bytes_ms between 1 and 3600000),
  total_ms        integer not null default 1800000 check (total_ms between 1 and 86400000),
  -- Whether its /metrics say how busy it is.
  reads_metrics   boolean not null default false,
  -- Takes nothing new, finishes what it has. null: in use.
  drained_at      timestamptz(3),
  created_at      timestamptz(3) not null
);
create index deployment_by_model on deployment (model, created_at);

-- Every gateway hears of a change when it commits.
create function tell_models_changed() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_models', '');
  return null;
end $$;
create trigger model_changes_are_told after insert or update or delete on model
  for each statement execute function tell_models_changed();
create trigger deployment_changes_are_told after insert or update or delete on deployment
  for each statement execute function tell_models_changed();

-- A server that answers inference requests. Its id lives in its data folder, beside its journal.
create table gateway (
  id      text primary key check (length(id) between 1 and 64),
  seen_at timestamptz(3) not null
);

-- Money that a gateway has been handed for an account, to spend without asking: a hold with an end. For a key with a
-- spending limit there is a purse of its own, since what is in it counts against the limit.
create table purse (
  hold_key   text primary key references hold (key),
  gateway_id text not null references gateway,
  account_id text not null references account,
  api_key_id text references api_key
);
create index purse_by_gateway on purse (gateway_id);
create index purse_by_key on purse (api_key_id) where api_key_id is not null;

-- Requests are written by the thousand, and each would look up its account and its key again: settle_requests
-- (schema/0009_purses.sql) looks them up once for all of them instead.
alter table request_cost drop constraint request_cost_account_id_fkey;
alter table request_cost drop constraint request_cost_api_key_id_fkey;

-- Of the input units, those that the engine had cached.
alter table request_cost add column cached_units bigint not null default 0 check (cached_units >= 0);

-- Tokens a minute. null: no limit of its own.
alter table api_key add column tokens_per_min integer check (tokens_per_min > 0);

-- Whether the texts of its requests and answers are kept with the request log.
alter table account add column keeps_bodies boolean not null default false;

-- One row an inference request, answered or not, for some weeks.
create table request_log (
  request_id    text primary key,
  account_id    text not null,
  api_key_id    text not null,
  operation     text not null,
  model         text not null,
  -- null: it reached none.
  deployment    text,
  at            timestamptz(3) not null,
  status        smallint not null,
  -- answered: to the end. cut: the client went away. broken: the engine failed in the middle. failed: not answered.
  outcome       text not null check (outcome in ('answered', 'cut', 'broken', 'failed')),
  -- A stable word, where it was not answered.
  reason        text,
  streamed      boolean not null,
  input_units   bigint not null,
  cached_units  bigint not null,
  output_units  bigint not null,
  cost_nano     bigint not null,
  -- null: no byte came.
  first_byte_ms integer,
  total_ms      integer not null,
  -- Of the caller's `traceparent`, or made here.
  trace_id      text not null,
  -- Sealed. null: the account does not keep them.
  request_body  text,
  response_body text
);
create index request_log_by_account on request_log (account_id, at desc, request_id);
-- Rows come in the order of time, so a few blocks tell where the old ones lie; a tree would be filled with every request.
create index request_log_by_age on request_log using brin (at);
