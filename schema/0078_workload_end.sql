-- When the program of a node ended by itself, by our clock. null: it has not, or its host does not tell.
alter table workload_node add column ended_at timestamptz(3);
