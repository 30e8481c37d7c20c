-- Dropping a week of requests must not hold up settlements. It took two locks that settlements need and then waited for a
-- third, on the whole table, while they queued behind it; a settlement that needed them the other way round made a
-- deadlock of it. Now it waits for the last one first, with nothing locked, and gives up soon (store/request-log.ts). Under
-- the lock only catalogs change: PostgreSQL removes the files, which is nearly all of the time, after it has released
-- the locks (of 1.0 s for a partition with 1 million rows, an insert into another one waited 0.3 s, on a busy machine).
create or replace function drop_request_partition(p_before timestamptz) returns text language plpgsql as $$
declare
  v_name  text;
  v_until timestamptz;
begin
  perform pg_advisory_xact_lock(8420019);
  select p.name, p.until into v_name, v_until from request_partitions() p
    where p.until <= p_before order by p.until limit 1;
  if v_name is null then
    return null;
  end if;
  -- Settlements that are running end first; later ones see the new instant.
  lock table request in access exclusive mode;
  delete from request_default where at < v_until;
  update request_thinned set before = greatest(before, v_until);
  execute format('drop table %I', v_name);
  return v_name;
end $$;
