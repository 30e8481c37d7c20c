-- Files of accounts: input and output of batches, and other results. A file is written in pieces of at most 1 MiB, sealed
-- with a key of its own, which is sealed by the vault. The pieces are rows here, or objects in the operator's store.
create table file (
  id         text primary key,
  account_id text not null references account,
  name       text not null check (length(name) between 1 and 255),
  purpose    text not null,
  -- writing: until the last piece is there. deleted: until its bytes are gone.
  state      text not null default 'writing' check (state in ('writing', 'ready', 'deleted')),
  key_sealed text not null,
  -- Objects that were begun count before they are written, so that a kill leaves none that nobody knows of.
  pieces     integer not null default 0 check (pieces >= 0),
  size_bytes bigint not null default 0 check (size_bytes >= 0),
  is_stored  boolean not null,
  created_at timestamptz(3) not null,
  -- The time of the last piece. A file that is not ready long after it was left behind.
  written_at timestamptz(3) not null,
  expires_at timestamptz(3) not null
);
comment on column file.is_stored is 'Its pieces are objects in the operator''s store, not rows of file_piece.';
create index file_by_account on file (account_id, created_at, id);
create index file_by_expiry on file (expires_at);
create index file_unfinished on file (written_at) where state <> 'ready';

create table file_piece (
  file_id text not null references file on delete cascade,
  number  integer not null check (number >= 0),
  sealed  bytea not null,
  primary key (file_id, number)
);
-- What is encrypted cannot be compressed.
alter table file_piece alter column sealed set storage external;
