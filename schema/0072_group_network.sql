-- The start of a group on hosts with our agent: each node measures its links to the others behind a gate, and the server opens
-- the gates once all have.
alter table workload add column group_open boolean not null default false;
-- [{"rank": 1, "mbps": 9400.5}]. null: it is no node of a group, or has not joined its network yet.
alter table workload_node add column group_links jsonb;
