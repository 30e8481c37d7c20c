-- When the readiness check was sent that a replica answered first. Before it, the engine loaded; after it, it computed the
-- first token. null: it has not answered, or it answered before this column existed.
alter table replica add column loaded_at timestamptz(3);
