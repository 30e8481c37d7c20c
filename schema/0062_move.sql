-- A stopped rental whose GPUs are taken can start on another machine, with its disk copied there. Until the copy runs, the
-- disk on the first machine is the one that counts.

-- Copies of the disk of a workload on hosts other than its own. `kept`: the one that it moves from. `gone`: to be removed,
-- since the workload runs elsewhere or its move was given up.
create table workload_copy (
  workload_id text not null references workload on delete cascade,
  host_id     text not null references host,
  want        text not null check (want in ('kept', 'gone')),
  -- The host's generation in which this was last changed.
  generation  bigint not null,
  primary key (workload_id, host_id)
);
create index workload_copy_by_host on workload_copy (host_id);
create unique index workload_copy_kept on workload_copy (workload_id) where want = 'kept';

-- As before (schema/0030_disk_space.sql). While it moves, its disk takes space on both machines.
create or replace function machines_of(p_spec jsonb) returns setof text language sql immutable as $$
  select node ->> 'machineId'
  from jsonb_array_elements(case when jsonb_typeof(p_spec -> 'nodes') = 'array' then p_spec -> 'nodes' else '[]' end) node
  union all select p_spec #>> '{movesFrom,machineId}' where p_spec ? 'movesFrom'
$$;
