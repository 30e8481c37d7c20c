-- Rentals of an engine that no server has stay due. A server passes over them in the index, without reading their rows:
-- after 4,500 orders for such an engine, each look for work took 3 ms.
drop index rental_to_create;
create index rental_to_create on rental (due_at, driver)
  where status = 'Pending' and external_id is null and released_at is null;
