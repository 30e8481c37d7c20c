-- Rentals to create and to destroy are few, and each index has only those. The one that they replace had all rentals that
-- were ever due, so with many running ones it was read as a whole every second.

create index rental_to_create on rental (due_at)
  where status = 'Pending' and external_id is null and released_at is null;
create index rental_to_destroy on rental (due_at)
  where status in ('Terminating', 'Failed') and released_at is null and external_id is not null;
drop index rental_due;
