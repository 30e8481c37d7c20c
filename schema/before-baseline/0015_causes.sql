-- Why the last call to an engine failed, kept beside what it was about, for operators; and volumes that are sold only
-- while their data is there.

-- null: the last call succeeded, or there was none. Customers never see it: an engine's words may name hosts and paths.
alter table rental add column last_error text check (length(last_error) <= 500);
alter table rental add column last_error_at timestamptz(3);
alter table volume add column last_error text check (length(last_error) <= 500);
alter table volume add column last_error_at timestamptz(3);
alter table attachment add column last_error text check (length(last_error) <= 500);
alter table attachment add column last_error_at timestamptz(3);

-- 'unknown': the engine no longer shows its data. It costs nothing until it is shown again.
alter table volume drop constraint volume_state_check;
alter table volume add constraint volume_state_check check (state in ('creating', 'active', 'suspended', 'unknown', 'deleting', 'deleted', 'failed'));
create index volume_by_driver on volume (driver, id) where state in ('creating', 'active', 'suspended', 'unknown', 'deleting');

-- Whether its data was ever shown: what is missing then is lost, and an empty one must not take its place.
alter table host_volume add column made boolean not null default false;
update host_volume set made = present;
-- Whether all of its blocks are set aside on its host when it is made.
alter table host_volume add column reserved boolean not null default false;
-- Why its host could not make it, or what has become of it. null: nothing to say.
alter table host_volume add column failure text;
