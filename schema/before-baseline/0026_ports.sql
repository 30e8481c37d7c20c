-- HTTP ports of rentals, which the server forwards to. The ports themselves are part of rental.spec (WorkloadSpec.ports).

-- Credentials for one port, for programs. The token is shown once; here is only its hash.
create table port_token (
  id         text primary key,
  rental_id  integer not null references rental,
  port       integer not null check (port between 1 and 65535),
  name       text not null check (length(name) between 1 and 255),
  token_hash bytea not null unique check (length(token_hash) = 32),
  last4      text not null,
  -- Who created it.
  person_id  text not null references person,
  created_at timestamptz(3) not null,
  -- null: it is valid until it is revoked or the rental ends.
  expires_at timestamptz(3)
);
create index port_token_by_port on port_token (rental_id, port);

-- Codes that a browser exchanges, once and within a minute, for a cookie of a port. They are deleted when they are used.
create table port_code (
  code_hash  bytea primary key check (length(code_hash) = 32),
  rental_id  integer not null references rental,
  port       integer not null,
  -- The cookie is valid while this key is.
  api_key_id text not null references api_key on delete cascade,
  expires_at timestamptz(3) not null
);
create index port_code_by_end on port_code (expires_at);

-- The last result of each health check. It counts only if it is younger than the state of the rental.
create table port_health (
  rental_id  integer not null references rental,
  port       integer not null,
  healthy    boolean not null,
  checked_at timestamptz(3) not null,
  primary key (rental_id, port)
);
