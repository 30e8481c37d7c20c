-- The installation itself: its id, its servers, and the turns that its loops take.

-- One row. The id is part of every tag that Berth leaves at an engine, so that two installations that share an engine
-- never touch each other's machines.
create table installation (
  only_row   boolean primary key default true check (only_row),
  id         text not null check (id ~ '^[0-9a-z]{6,20}$'),
  -- A known text, sealed with the secret key: it tells a server that was started with another key.
  key_check  text,
  created_at timestamptz(3) not null
);

-- Servers that take connections from each other. Each one reaches every host, through the server that the host's agent
-- is connected to.
create table server (
  id      uuid primary key,
  -- Other servers connect to this host:port.
  address text not null check (length(address) between 3 and 300),
  seen_at timestamptz(3) not null
);

-- Loops that must run on one server at a time take turns here.
create table loop (
  name        text primary key,
  -- When its last successful turn began. For `observe:<driver>`: up to when that engine has shown what runs.
  done_at     timestamptz(3),
  lease_token uuid,
  lease_until timestamptz(3)
);

-- How many requests of a limited subject were handed out to servers in a minute. A crash may lose it, at no harm.
create unlogged table rate_window (
  subject text not null,
  minute  timestamptz(3) not null,
  taken   integer not null,
  primary key (subject, minute)
);

-- The trigger of tables that are append-only.
create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end $$;
