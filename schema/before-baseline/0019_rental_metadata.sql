-- What a client of the marketplace keeps with an instance and reads back in the list. Nothing here looks into it. Older
-- servers write rentals without it.

alter table rental add column user_metadata jsonb not null default '{}'
  check (jsonb_typeof(user_metadata) = 'object');

-- The interface gives labels no length, so the limit is where no client meets it. Older servers send shorter ones.
-- Every row that is there fits, which need not be looked up under a lock.
alter table rental drop constraint rental_label_check;
alter table rental add constraint rental_label_check check (length(label) <= 4096) not valid;
