-- Stored responses: the input and output of one turn, sealed with a key of its own, which is sealed by the vault. A
-- conversation is the chain of `previous_id`. Responses stay as long as one of their conversation does, which needs them.
alter table account add column stores_responses boolean not null default true;

create table response (
  id          text primary key,
  account_id  text not null references account,
  previous_id text,
  root_id     text not null,
  key_sealed  text not null,
  sealed      bytea not null,
  size_bytes  integer not null check (size_bytes >= 0),
  created_at  timestamptz(3) not null,
  expires_at  timestamptz(3) not null
);
comment on column response.previous_id is 'Null: it begins a conversation. The response may have been deleted.';
comment on column response.root_id is 'The first response of the conversation.';
-- What is encrypted cannot be compressed.
alter table response alter column sealed set storage external;
create index response_by_account on response (account_id, created_at desc) include (size_bytes);
create index response_by_root on response (root_id, expires_at);
create index response_by_expiry on response (expires_at);
