-- Batches: files of requests that run on idle capacity at a lower price.

alter table model add column batch_discount_percent smallint not null default 50
  check (batch_discount_percent between 0 and 100);

-- null: sent by itself. Only what a batch has added to its cost has one.
alter table request add column batch_id text;
create index request_by_batch on request (batch_id) where batch_id is not null;

create table batch (
  id              text primary key,
  account_id      text not null references account,
  -- Its lines are requests of this key.
  api_key_id      text not null,
  input_file_id   text not null,
  endpoint        text not null,
  -- null: its lines have not been read yet.
  model           text,
  metadata        jsonb,
  status          text not null default 'validating' check (status in
    ('validating', 'failed', 'in_progress', 'finalizing', 'completed', 'expired', 'cancelling', 'cancelled')),
  -- What is wrong with its lines. null: nothing.
  errors          jsonb,
  -- The results are sealed with it, as files are with theirs.
  key_sealed      text not null,
  -- How long its files of results are stored. null: as long as others.
  output_seconds  integer check (output_seconds > 0),
  -- null: there is no such line, or not yet.
  output_file_id  text,
  error_file_id   text,
  lines           integer not null default 0 check (lines >= 0),
  completed       integer not null default 0 check (completed >= 0),
  failed          integer not null default 0 check (failed >= 0),
  cost_nano       bigint not null default 0 check (cost_nano >= 0),
  -- null: it runs, or nothing is left to run.
  waits_for       text check (waits_for in ('money', 'capacity')),
  due_at          timestamptz(3) not null,
  created_at      timestamptz(3) not null,
  expires_at      timestamptz(3) not null,
  in_progress_at  timestamptz(3),
  finalizing_at   timestamptz(3),
  completed_at    timestamptz(3),
  failed_at       timestamptz(3),
  expired_at      timestamptz(3),
  cancelling_at   timestamptz(3),
  cancelled_at    timestamptz(3),
  -- The server that reads its lines or writes its files.
  lease_token     text,
  lease_until     timestamptz(3),
  check (completed + failed <= lines or lines = 0)
);
create index batch_by_account on batch (account_id, created_at, id);
create index batch_unfinished on batch (created_at)
  where status in ('validating', 'in_progress', 'finalizing', 'cancelling');
create index batch_by_input on batch (input_file_id)
  where status in ('validating', 'in_progress', 'finalizing', 'cancelling');

-- The lines of a batch that has not ended, by their place in the file. A line is charged in the transaction that writes its
-- result, so it cannot be charged twice, or without a result.
create table batch_line (
  batch_id     text not null references batch on delete cascade,
  line         integer not null check (line > 0),
  offset_bytes bigint not null check (offset_bytes >= 0),
  size_bytes   integer not null check (size_bytes > 0),
  -- Times that an engine failed at it.
  attempts     smallint not null default 0 check (attempts >= 0),
  due_at       timestamptz(3) not null,
  -- The server that runs it.
  lease_token  text,
  lease_until  timestamptz(3),
  -- Sealed. null: it has none yet.
  result       bytea,
  -- null: it has no result yet.
  is_failed    boolean,
  primary key (batch_id, line),
  check ((result is null) = (is_failed is null))
);
-- What is encrypted cannot be compressed.
alter table batch_line alter column result set storage external;
create index batch_line_open on batch_line (batch_id, line) where result is null;
