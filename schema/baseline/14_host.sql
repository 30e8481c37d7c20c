-- Hosts that run things for us: machines with our agent (driver 'host') and machines that the server reaches over SSH
-- (driver 'private-cloud'). The desired state of a host is here, beside the host's report on it. A host is told the whole
-- desired state and reports the whole actual one. Nothing else is ever sent, so a message that is lost, doubled or late
-- changes nothing.

create table host (
  -- Its machine has the same id.
  id            text primary key check (id ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  driver        text not null check (driver in ('host', 'private-cloud')),
  -- null: the house's own.
  supplier_id   text references account,
  state         text not null default 'ready' check (state in ('ready', 'draining', 'cleaning', 'quarantined', 'left')),
  -- Why it is in quarantine or has left, for its owner and the operator. null: nothing to say.
  state_reason  text,
  -- The agent's Ed25519 key in base64url, which identifies it wherever it calls from. null: reached over SSH.
  public_key    text unique,
  -- How to reach a host over SSH, sealed by the vault. null: it calls us.
  access        text,
  -- How tenants and neighbors reach it: hostname, publicIp, privateIp, sshPort. null: behind its agent.
  address       jsonb,
  -- Its hardware as it reports it or, over SSH, as the operator has declared it (InventoryMachine).
  offer         jsonb not null,
  -- Abilities and limits of its engine, in words for its owner and the operator.
  notes         jsonb not null default '[]',
  -- Why it takes no tenants although it answers, for example because it cannot isolate them: { reason, message }. Written
  -- with each report. null: there is no fault.
  fault         jsonb check (jsonb_typeof(fault) = 'object'),
  -- The number grows with every change of the desired state. A report names the one that it has acted on.
  generation    bigint not null default 1,
  -- The connection whose reports count: an old one that is not yet known to be dead must not overwrite a newer one.
  session       uuid,
  -- The server that the agent is connected to. null: none, or one that takes no connections from others. It may name a
  -- server that was forgotten: one that comes back after a pause has its hosts again.
  server_id     uuid,
  -- The version that it named when it last connected. null: it has no agent, or has not connected yet.
  agent_version text,
  -- When it last reported. null: never.
  seen_at       timestamptz(3),
  -- The last measurements of its GPUs. null: none yet.
  metrics       jsonb,
  metrics_at    timestamptz(3),
  created_at    timestamptz(3) not null,
  constraint known_by_one_way check ((driver = 'host') = (public_key is not null) and (driver = 'private-cloud') = (access is not null))
);
create index host_by_supplier on host (supplier_id) where supplier_id is not null;

-- Tells every server of a new desired state: the one with the host's connection passes it on.
create function tell_host() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_hosts', new.id);
  return new;
end $$;
create trigger host_is_told after insert or update of generation, state on host for each row execute function tell_host();

create function tell_host_place() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_host_places', new.id);
  return new;
end $$;
create trigger host_has_moved after update of server_id on host for each row
  when (old.server_id is distinct from new.server_id) execute function tell_host_place();

-- The status of the machine of a host, for each state of the host.
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

-- Tokens that let machines join. Only the hash is here.
create table join_token (
  id          text primary key,
  account_id  text not null references account,
  hash        bytea not null unique,
  -- The supplier that the machines belong to. null: the house.
  supplier_id text references account,
  uses_left   integer not null check (uses_left >= 0),
  created_at  timestamptz(3) not null,
  expires_at  timestamptz(3) not null
);

-- Images that virtual machines start from. Orders that name none get the default one of the architecture.
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

-- One machine of a customer: a container, a virtual machine, or one or more whole hosts.
create table workload (
  -- The engine's id of it.
  id         text primary key,
  driver     text not null check (driver in ('host', 'private-cloud')),
  tag        text not null,
  -- null: found on a host without a record of it. It is shown, and left alone until someone decides.
  spec       jsonb,
  -- The image of a virtual machine, for its next starts too. null: the small image of its host.
  base_image jsonb,
  -- `stopped`: it is off, with its disk kept.
  want       text not null default 'run' check (want in ('run', 'stopped', 'gone')),
  -- How often it was rebooted.
  reboots    integer not null default 0,
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
  -- The host's generation in which this was last changed: only a report on that one or a later one is about it.
  generation  bigint not null,
  -- The host's last report. null: it has reported nothing about it yet.
  state       text check (state in ('starting', 'running', 'stopping', 'stopped', 'failed')),
  -- Why it failed, as a snake_case word, and in a sentence.
  failure     text,
  message     text,
  -- The user that people log in as. null: not known yet.
  ssh_user    text,
  -- A word for this run of it, which changes when it stood still and was started again. null: not known.
  incarnation text,
  -- The volumes that it has mounted or plugged in.
  disks       text[] not null default '{}',
  -- Whether the host has ever shown it running: if it is missing then, it is lost, not new.
  started     boolean not null default false,
  primary key (workload_id, host_id)
);
create index workload_node_by_host on workload_node (host_id);

-- Stable public ports: of a workload, or of a rental at an engine that the server itself reaches, such as Kubernetes, which
-- has no workload on a host. Target 0 is SSH.
create table relay_port (
  port        integer primary key check (port between 1 and 65535),
  workload_id text references workload on delete cascade,
  rental_id   integer references rental,
  target      integer not null check (target between 0 and 65535),
  unique (workload_id, target),
  constraint relay_port_of_one check (num_nonnulls(workload_id, rental_id) = 1),
  constraint relay_port_of_rental unique (rental_id, target)
);

-- The ports of a rental are freed when nothing of it is left at its engine.
create function free_relay_ports() returns trigger language plpgsql as $$
begin
  delete from relay_port where rental_id = new.id;
  return new;
end $$;
create trigger rental_frees_ports after update of released_at on rental for each row
  when (old.released_at is null and new.released_at is not null) execute function free_relay_ports();

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
  -- Whether the host shows it. On the file server it exists before the row does.
  present    boolean not null default false,
  -- Whether its data was ever shown: if it is missing then, it is lost, and an empty one must not take its place.
  made       boolean not null default false,
  -- Whether all of its blocks are allocated on its host when it is created.
  reserved   boolean not null default false,
  -- Why its host could not create it, or how it was lost. null: nothing to say.
  failure    text,
  -- Its size and use as its host reports them. null: the host has not said.
  found_gb   integer,
  used_gb    double precision,
  -- The volume on the same host that it starts as a copy of.
  copy_of    text,
  -- The host's generation in which this was last changed. null: on the file server.
  generation bigint,
  created_at timestamptz(3) not null
);
create unique index host_volume_by_tag on host_volume (tag text_pattern_ops);

create table workload_disk (
  workload_id text not null references workload on delete cascade,
  volume_id   text not null references host_volume,
  path        text,
  read_only   boolean not null default false,
  primary key (workload_id, volume_id)
);
create index workload_disk_by_volume on workload_disk (volume_id);
