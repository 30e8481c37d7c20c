-- People who have signed in to the console with a key. The browser keeps a random token in a cookie; here is only its
-- hash, so that who reads this table cannot be anybody. What a session may do is what its key may do at that moment.

create table console_session (
  token_hash bytea primary key check (length(token_hash) = 32),
  api_key_id text not null references api_key on delete cascade,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  constraint ends_after_it_began check (expires_at > created_at)
);
create index console_session_by_key on console_session (api_key_id, created_at);
create index console_session_by_end on console_session (expires_at);
