-- Groups: containers on several whole machines of one cluster, ordered, started and ended together. Each node is a rental.
create table rental_group (
  id                 text primary key,
  -- The order of lists, and the number of its private network.
  number             integer generated always as identity unique,
  name               text not null unique,
  account_id         text not null references account,
  person_id          text not null,
  api_key_id         text not null,
  label              text,
  nodes              integer not null check (nodes between 2 and 16),
  gpus_per_node      integer not null check (gpus_per_node >= 1),
  -- What was ordered, for a restart. Secrets are references.
  spec               jsonb not null,
  max_nano_per_hour  bigint check (max_nano_per_hour >= 0),
  on_node_loss       text not null check (on_node_loss in ('end', 'restart')),
  state              text not null default 'starting'
                     check (state in ('starting', 'running', 'restarting', 'ending', 'ended')),
  -- Why it restarts or ends, and the node that is the cause. null: no reason yet, or no single node.
  state_reason       text,
  failed_rank        integer,
  state_since        timestamptz(3) not null,
  restarts           integer not null default 0 check (restarts >= 0),
  -- When the next try to place a restart is due. null: at once.
  retry_at           timestamptz(3),
  created_at         timestamptz(3) not null,
  -- The first instant at which all nodes ran. null: it has not run.
  started_at         timestamptz(3),
  ended_at           timestamptz(3),
  check ((state = 'ended') = (ended_at is not null))
);
create index rental_group_by_account on rental_group (account_id, number);
create index rental_group_unfinished on rental_group (number) where state <> 'ended';

-- The rentals of a group. A restart has new ones.
create table group_node (
  rental_id integer primary key references rental,
  group_id  text not null references rental_group,
  attempt   integer not null check (attempt >= 0),
  rank      integer not null check (rank between 0 and 15),
  unique (group_id, attempt, rank)
);
