-- The exit code of a program that ended by itself: as its host reported it, and of its rental. null: it has not, or the
-- code is not known.
alter table workload_node add column exit_code smallint check (exit_code between 0 and 255);
alter table rental add column exit_code smallint check (exit_code between 0 and 255);
