-- Reserved terms of the past are many after years, and few of them are the current term of a living rental: only those can
-- expire. The `retention` loop closes the others, and the index by which `expire-terms` finds its work leaves them out.
alter table term add column closed boolean not null default false;
drop index term_by_end;
create index term_open_by_end on term (reservation_ends_at) where reservation_ends_at is not null and not closed;

-- Only a running rental stops at its time; those that have ended are many.
drop index rental_stop_at;
create index rental_stop_at on rental (stop_at) where stop_at is not null and status = 'Running';

-- Rentals in a state that they leave by themselves: few, whatever has ended or runs.
create index rental_passing on rental (status, status_since)
  where status in ('Pending', 'Unknown', 'Starting', 'Stopping', 'Failed', 'Terminating') and released_at is null and stuck_at is null;
