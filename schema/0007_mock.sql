-- The simulated engine's own world. It stands for an engine elsewhere, so nothing but the mock driver reads it; it is
-- in the database so that a simulated machine outlives the server that asked for it, as a real one would.

create schema mock;

create table mock.machine (
  external_id  text primary key,
  tag          text not null,
  spec         jsonb not null,
  -- Labels of the form `fault:…` choose how it misbehaves.
  label        text,
  created_at   timestamptz(3) not null,
  running_at   timestamptz(3) not null,
  -- From when on the list shows it.
  listed_at    timestamptz(3) not null,
  -- null: never asked to go. From `gone_at` on it is gone.
  destroy_asked_at timestamptz(3),
  destroy_refusals integer not null default 0,
  gone_at      timestamptz(3)
);
create index mock_machine_by_tag on mock.machine (tag);

create table mock.volume (
  external_id text primary key,
  tag         text not null,
  size_gb     integer not null,
  created_at  timestamptz(3) not null,
  gone_at     timestamptz(3),
  attached_to text[] not null default '{}'
);
create index mock_volume_by_tag on mock.volume (tag);
