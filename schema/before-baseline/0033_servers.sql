-- Servers over this database that take connections from each other: each one reaches every host, through the server
-- that the host's agent is connected to.
create table server (
  id      uuid primary key,
  -- host:port for other servers.
  address text not null check (length(address) between 3 and 300),
  seen_at timestamptz(3) not null
);

-- The server that the agent is connected to. null: none, or one that takes no connections from others. It may name a
-- server that was forgotten: one that comes back after a pause has its hosts again.
alter table host add column server_id uuid;

create function tell_host_place() returns trigger language plpgsql as $$
begin
  perform pg_notify('berth_host_places', new.id);
  return new;
end $$;
create trigger host_has_moved after update of server_id on host for each row
  when (old.server_id is distinct from new.server_id) execute function tell_host_place();
