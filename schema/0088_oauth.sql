-- Agents that sign in with OAuth: a person approves one in the console, which exchanges a code for an API key of theirs.

create table oauth_grant (
  code_hash    bytea primary key check (length(code_hash) = 32),
  client_id    text not null check (length(client_id) <= 500),
  redirect_uri text not null check (length(redirect_uri) <= 2000),
  -- The SHA-256 of the secret that the client has kept (PKCE).
  challenge    bytea not null check (length(challenge) = 32),
  api_key_id   text not null references api_key,
  -- The key, sealed by the vault until the client exchanges the code. null: exchanged, or nobody did in time.
  key_sealed   text,
  expires_at   timestamptz(3) not null
);
create index oauth_grant_by_end on oauth_grant (expires_at);
