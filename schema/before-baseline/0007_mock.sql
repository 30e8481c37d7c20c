-- The simulated engine's own world. It stands for an engine elsewhere, so nothing but the mock driver reads it; it is
-- in the database so that a simulated machine outlives the server that asked for it, as a real one would.
--
-- Nothing here has a state that someone must keep up: what a row is at a moment follows from its times and the clock.
-- The faults of engines/mock/faults.ts are such times and counts too, written when the row is made.

create schema mock;

create table mock.machine (
  external_id           text collate "C" primary key,
  -- In the order of bytes, so that a prefix is a range of the index whatever the database's locale is.
  tag                   text collate "C" not null,
  -- domain/rental.ts, EngineSpec.
  spec                  jsonb not null,
  created_at            timestamptz(3) not null,
  -- From when on the list shows it.
  listed_at             timestamptz(3) not null,
  -- null: it never comes up.
  running_at            timestamptz(3),
  -- null: it does not fail.
  failed_at             timestamptz(3),
  -- The list leaves it out from the one to the other. null: never.
  hidden_from           timestamptz(3),
  hidden_until          timestamptz(3),
  -- From then on it is gone. null: it stays until it is destroyed.
  gone_at               timestamptz(3),
  -- null: nobody has asked, or every asking was refused.
  destroy_asked_at      timestamptz(3),
  -- How long it takes to go, once asked.
  destroy_ms            integer not null check (destroy_ms >= 0),
  -- How many more askings are refused.
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
