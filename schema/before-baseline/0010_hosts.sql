-- Hosts that we run things on ourselves: machines with our agent (driver 'host') and machines that the server reaches
-- over SSH (driver 'private-cloud'). What should run on a host is written here, and what the host says of it beside it;
-- a host is told the whole of what is wanted and reports the whole of what there is. Nothing else is ever sent, so a
-- message that is lost, doubled or late changes nothing.

create table host (
  -- Also the id of its machine.
  id           text primary key check (id ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  driver       text not null check (driver in ('host', 'private-cloud')),
  -- null: the house's own.
  supplier_id  text references account,
  state        text not null default 'ready' check (state in ('ready', 'draining', 'cleaning', 'quarantined', 'left')),
  -- Why it is in quarantine or was let go, for its owner and the operator. null: nothing to say.
  state_reason text,
  -- Of an agent: its Ed25519 key in base64url, by which it is known wherever it calls from. null: reached over SSH.
  public_key   text unique,
  -- Of a host over SSH: how to reach it, sealed by the vault. null: it calls us.
  access       text,
  -- Where tenants find it and its neighbours find it: hostname, publicIp, privateIp, sshPort. null: behind its agent.
  address      jsonb,
  -- What it offers, as it reports it itself or, over SSH, as the operator has declared it (InventoryMachine).
  offer        jsonb not null,
  -- What its engine can and cannot do, in words: for its owner and the operator.
  notes        jsonb not null default '[]',
  -- Grows with every change of what is wanted here. A report names the one it has acted on.
  generation   bigint not null default 1,
  -- The connection whose reports count: an old one that is not yet known to be dead must not overwrite a newer one.
  session      uuid,
  -- When it last reported. null: never.
  seen_at      timestamptz(3),
  -- The last measurements of its GPUs. null: none yet.
  metrics      jsonb,
  metrics_at   timestamptz(3),
  created_at   timestamptz(3) not null,
  constraint known_by_one_way check ((driver = 'host') = (public_key is not null) and (driver = 'private-cloud') = (access is not null))
);
create index host_by_supplier on host (supplier_id) where supplier_id is not null;

-- A one-time word that lets a machine join. Only its hash is kept.
create table join_token (
  id         text primary key,
  account_id text not null references account,
  hash       bytea not null unique,
  -- What the machines that join with it belong to: null is the house, else the supplier.
  supplier_id text references account,
  uses_left  integer not null check (uses_left >= 0),
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null
);

-- One machine of a customer: a container, a virtual machine, or one or more whole hosts.
create table workload (
  -- The engine's id of it.
  id         text primary key,
  driver     text not null check (driver in ('host', 'private-cloud')),
  tag        text not null,
  -- null: found on a host and not in the books. It is shown, and left alone until someone decides.
  spec       jsonb,
  -- Virtual machines: what it was started from, and is started from again. null: the small image of its host.
  base_image jsonb,
  want       text not null default 'run' check (want in ('run', 'gone')),
  created_at timestamptz(3) not null
);
create unique index workload_by_tag on workload (tag text_pattern_ops) where spec is not null;
create index workload_by_prefix on workload (driver, tag text_pattern_ops);

create table workload_node (
  workload_id text not null references workload on delete cascade,
  host_id     text not null references host,
  -- 0 is the head of several.
  node_index  integer not null check (node_index >= 0),
  gpu_indexes integer[] not null,
  -- The host's generation in which this was last changed: only a report on that one or a later one speaks of it.
  generation  bigint not null,
  -- As the host reports it. null: it has said nothing of it yet.
  state       text check (state in ('starting', 'running', 'stopping', 'failed')),
  -- Why it failed, in a snake_case word, and in a sentence.
  failure     text,
  message     text,
  -- Under which user people log in. null: not known yet.
  ssh_user    text,
  -- Of this run of it: another word after it stood still and was started again. null: not known.
  incarnation text,
  -- What it has mounted or plugged in.
  disks       text[] not null default '{}',
  -- Whether the host has ever shown it running: what is missing then is lost, not new.
  started     boolean not null default false,
  primary key (workload_id, host_id)
);
create index workload_node_by_host on workload_node (host_id);

-- The stable public port of one port of a workload. target 0 is SSH.
create table relay_port (
  port        integer primary key check (port between 1 and 65535),
  workload_id text not null references workload on delete cascade,
  target      integer not null check (target between 0 and 65535),
  unique (workload_id, target)
);

-- Volumes: files on one host for its virtual machines, or folders on a file server for bare metal.
create table host_volume (
  id         text primary key,
  driver     text not null check (driver in ('host', 'private-cloud')),
  tag        text not null,
  -- null: on the file server.
  host_id    text references host,
  label      text not null,
  size_gb    integer not null check (size_gb > 0),
  vip        text not null,
  want       text not null default 'there' check (want in ('there', 'gone')),
  -- Whether the host has shown it. On the file server it is there before the row is.
  present    boolean not null default false,
  -- The host's generation in which this was last changed. null: on the file server.
  generation bigint,
  created_at timestamptz(3) not null
);
create unique index host_volume_by_tag on host_volume (tag text_pattern_ops);

create table workload_disk (
  workload_id text not null references workload on delete cascade,
  volume_id   text not null references host_volume,
  primary key (workload_id, volume_id)
);
create index workload_disk_by_volume on workload_disk (volume_id);

-- The run of it that was last seen. When another one is seen after a time in which nothing was known, it stood still
-- meanwhile, and that time costs nothing. null: the engine does not tell runs apart.
alter table rental add column incarnation text;

-- Images that virtual machines start from. The default one of an architecture serves orders that name none.
create table base_image (
  name       text primary key check (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
  arch       text not null check (arch in ('x64', 'arm64')),
  -- https:, or file: on the hosts themselves.
  source     text not null,
  sha256     text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  login_user text not null,
  is_default boolean not null default false,
  created_at timestamptz(3) not null
);
create unique index base_image_default on base_image (arch) where is_default;

-- Tells every server that something is wanted of a host: the one that holds its connection passes it on.
create function tell_host() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_hosts', new.id);
  return new;
end $$;
create trigger host_is_told after insert or update of generation, state on host for each row execute function tell_host();

-- What the machine of a host is called in each state of the host.
create function machine_status_of(p_host_state text) returns text language sql immutable as $$
  select case p_host_state
    when 'draining' then 'node_draining' when 'cleaning' then 'node_cleaning'
    when 'quarantined' then 'node_quarantined' when 'left' then 'node_lost' else 'node_ready' end
$$;

-- The machine that is sold follows the state of its host at once: between the end of a tenant and a quarantine there
-- must be no moment in which it could be claimed.
create function machine_follows_host() returns trigger language plpgsql as $$
begin
  update machine set status = machine_status_of(new.state) where id = new.id and driver = new.driver;
  return new;
end $$;
create trigger host_moves_machine after update of state on host for each row
  when (old.state is distinct from new.state) execute function machine_follows_host();
