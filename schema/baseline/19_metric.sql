-- Measurements of rentals over time. Values are packed by the server (store/rental/sample-code.ts): a row is one machine of
-- a rental and one minute of samples, or one hour of summaries. Both tables are partitioned by time and dropped partition
-- by partition: deleting millions of rows an hour would cost more than writing them.

-- Samples every ten seconds, kept for a day. Two servers may each have a part of one minute, when an agent moves from
-- one to the other, so there is no key; readers merge the rows.
create table rental_sample (
  rental_id integer not null,
  -- The machine of the rental: 0 is the head of several.
  node      smallint not null,
  -- The first instant of the minute.
  at        timestamptz(3) not null,
  data      bytea not null
) partition by range (at);
create index rental_sample_by_rental on rental_sample (rental_id, at);

-- Average and maximum of each five minutes, kept for thirty days.
create table rental_summary (
  rental_id integer not null,
  node      smallint not null,
  -- The first instant of the hour.
  at        timestamptz(3) not null,
  data      bytea not null,
  primary key (rental_id, node, at)
) partition by range (at);

-- Rows for a time without a partition; make_metric_partitions moves them when there is one.
create table rental_sample_default partition of rental_sample default;
create table rental_summary_default partition of rental_summary default;

-- The hours before this one are summarized. null: none yet.
create table metric_progress (
  only_row         boolean primary key default true check (only_row),
  summarized_until timestamptz(3)
);
insert into metric_progress default values;

create function metric_partitions(p_table text) returns table (name text, until timestamptz) language sql stable as $$
  select relname::text,
    (to_timestamp(right(relname, 10), 'YYYYMMDDHH24')::timestamp
      + case p_table when 'rental_sample' then interval '1 hour' else interval '1 day' end) at time zone 'UTC'
  from pg_inherits join pg_class on pg_class.oid = inhrelid
  where inhparent = p_table::regclass and relname ~ '_[0-9]{10}$'
$$;

-- Creates the partitions for now and some time ahead: samples by hour, summaries by day. Returns how many were missing.
create function make_metric_partitions(p_now timestamptz) returns integer language plpgsql set timezone = 'UTC' as $$
declare
  v_made  integer := 0;
  v_table text;
  v_unit  text;
  v_ahead integer;
  v_from  timestamp;
  v_until timestamp;
  v_name  text;
begin
  -- Without metrics there is nothing to keep apart; the first ones are in the default partition until the next call.
  if not exists (select 1 from rental_sample) and not exists (select 1 from rental_summary) then
    return 0;
  end if;
  perform pg_advisory_xact_lock(8420024);
  for v_table, v_unit, v_ahead in values ('rental_sample', 'hour', 3), ('rental_summary', 'day', 1) loop
    -- One back: the last minutes of an hour are written after it.
    for v_step in -1 .. v_ahead loop
      v_from := date_trunc(v_unit, p_now at time zone 'UTC') + v_step * ('1 ' || v_unit)::interval;
      v_until := v_from + ('1 ' || v_unit)::interval;
      v_name := v_table || '_' || to_char(v_from, 'YYYYMMDDHH24');
      continue when exists (select 1 from metric_partitions(v_table) p where p.name = v_name);
      execute format('create table %I (like %I including defaults including constraints)', v_name, v_table);
      execute format('with moved as (delete from %I where at >= %L and at < %L returning *) insert into %I select * from moved',
        v_table || '_default', v_from at time zone 'UTC', v_until at time zone 'UTC', v_name);
      execute format('alter table %I attach partition %I for values from (%L) to (%L)',
        v_table, v_name, v_from at time zone 'UTC', v_until at time zone 'UTC');
      v_made := v_made + 1;
    end loop;
  end loop;
  return v_made;
end $$;

-- Drops the partitions that end before `p_before`, and rows of that time in the default one. Returns how many were dropped.
-- Gives up on a partition that someone is reading for long: the next pass drops it.
create function drop_metric_partitions(p_table text, p_before timestamptz) returns integer language plpgsql
  set lock_timeout = '2s' as $$
declare
  v_name    text;
  v_dropped integer := 0;
begin
  perform pg_advisory_xact_lock(8420024);
  for v_name in select p.name from metric_partitions(p_table) p where p.until <= p_before order by p.until limit 24 loop
    execute format('drop table %I', v_name);
    v_dropped := v_dropped + 1;
  end loop;
  execute format('delete from %I where at < %L', p_table || '_default', p_before);
  return v_dropped;
end $$;
