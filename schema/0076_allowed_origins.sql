-- The web pages that may call with the key, by origin; `*` is any. Empty: browsers refuse every page its answers.
alter table api_key add column allowed_origins text[] not null default '{}'
  check (cardinality(allowed_origins) <= 20 and array_position(allowed_origins, null) is null);
