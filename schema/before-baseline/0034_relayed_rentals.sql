-- Public ports of rentals at engines that the server itself reaches, such as Kubernetes. They have no workload on a host.
alter table relay_port alter column workload_id drop not null;
alter table relay_port add column rental_id integer references rental;
alter table relay_port add constraint relay_port_of_one check (num_nonnulls(workload_id, rental_id) = 1);
alter table relay_port add constraint relay_port_of_rental unique (rental_id, target);

-- The ports of a rental go back when nothing of it is left at its engine.
create function free_relay_ports() returns trigger language plpgsql as $$
begin
  delete from relay_port where rental_id = new.id;
  return new;
end $$;
create trigger rental_frees_ports after update of released_at on rental for each row
  when (old.released_at is null and new.released_at is not null) execute function free_relay_ports();
