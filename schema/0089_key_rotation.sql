-- The secret of an API key can be replaced: the key keeps its id, rights, limits and spending.

alter table api_key
  -- The secret before the last rotation, and until when it works. null: the key was never rotated.
  add column old_secret_hash bytea check (length(old_secret_hash) = 32),
  add column old_secret_until timestamptz(3),
  add constraint old_secret_ends check ((old_secret_hash is null) = (old_secret_until is null));
