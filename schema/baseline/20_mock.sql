-- The simulated engine's own world. It stands for an engine elsewhere, so only the mock driver reads it; it is in the
-- database so that a simulated machine outlives the server that created it, as a real one would.
--
-- Nothing here has a state that someone must update: the state of a row at a moment follows from its times and the clock.
-- The faults of drivers/mock/faults.ts are such times and counts too, written when the row is created.

create schema mock;

create table mock.machine (
  external_id           text collate "C" primary key,
  -- The index is in the order of bytes, so that a prefix is a range of the index whatever the database's locale is.
  tag                   text collate "C" not null,
  -- EngineSpec in src/domain/rental.ts.
  spec                  jsonb not null,
  created_at            timestamptz(3) not null,
  -- When the list begins to show it.
  listed_at             timestamptz(3) not null,
  -- null: it never runs.
  running_at            timestamptz(3),
  -- null: it does not fail.
  failed_at             timestamptz(3),
  -- When it was stopped. null: it is on.
  off_at                timestamptz(3),
  reboots               integer not null default 0,
  -- The list leaves it out between the two. null: never.
  hidden_from           timestamptz(3),
  hidden_until          timestamptz(3),
  -- When it is gone. null: it stays until it is destroyed.
  gone_at               timestamptz(3),
  -- null: its end was not requested, or every request was refused.
  destroy_asked_at      timestamptz(3),
  -- How long its end takes.
  destroy_ms            integer not null check (destroy_ms >= 0),
  -- How many more requests to destroy it are refused.
  destroy_refusals_left integer not null check (destroy_refusals_left >= 0),
  check ((hidden_from is null) = (hidden_until is null))
);
create index mock_machine_by_tag on mock.machine (tag);
create index mock_machine_gone on mock.machine (gone_at) where gone_at is not null;

-- The columns that machines have too mean the same.
create table mock.volume (
  external_id           text collate "C" primary key,
  tag                   text collate "C" not null,
  label                 text not null,
  region                text not null,
  size_gb               integer not null check (size_gb > 0),
  vip                   text not null,
  created_at            timestamptz(3) not null,
  listed_at             timestamptz(3) not null,
  hidden_from           timestamptz(3),
  hidden_until          timestamptz(3),
  gone_at               timestamptz(3),
  destroy_asked_at      timestamptz(3),
  destroy_ms            integer not null check (destroy_ms >= 0),
  destroy_refusals_left integer not null check (destroy_refusals_left >= 0),
  attach_refusals_left  integer not null check (attach_refusals_left >= 0),
  -- External ids of machines. Those that are gone no longer count.
  attached_to           text[] collate "C" not null default '{}',
  check ((hidden_from is null) = (hidden_until is null))
);
create index mock_volume_by_tag on mock.volume (tag);
create index mock_volume_gone on mock.volume (gone_at) where gone_at is not null;
