-- Placement with tens of thousands of machines.

-- The fullest machines with free GPUs of an engine, first. Units of offers are few.
create index machine_with_room on machine (driver, offering, region, gpu_type, network_type, gpus_free, id)
  where offering <> 'marketplace' and status = 'node_ready' and listed and offer_id is null;

-- As claim_share, but null as well while another transaction has the machine locked.
create function try_claim_share(p_machine text, p_count integer, p_disk_gb double precision, p_rental integer, p_at timestamptz)
returns integer[] language plpgsql as $$
begin
  perform 1 from machine where id = p_machine for update skip locked;
  return case when found then claim_share(p_machine, p_count, p_disk_gb, p_rental, p_at) end;
end $$;

-- As before (schema/0030_disk_space.sql), but it waits for a machine only if no other place has room. Orders that arrive
-- together are all given the same places, the fullest machine first, and would take turns there until each has committed.
create or replace function write_order(
  p_rental jsonb, p_names text[], p_term jsonb, p_hold_nano bigint, p_places jsonb, p_at timestamptz
) returns table (outcome text, rental rental) language plpgsql as $$
declare
  v_id      integer := nextval(pg_get_serial_sequence('rental', 'id'));
  v_rental  rental;
  v_name    text;
  v_place   jsonb;
  v_machine jsonb;
  v_indexes integer[];
  v_nodes   jsonb;
  v_disk_gb double precision := coalesce((p_rental #>> '{spec,resources,storageGb}')::double precision, 0);
begin
  if p_hold_nano = 0 then
    insert into hold (key, account_id, amount_nano, created_at) values ('rental:' || v_id, p_rental ->> 'account_id', 0, p_at);
  elsif ledger_hold('rental:' || v_id || ':hold', 'rental:' || v_id, p_at, p_rental ->> 'account_id', p_hold_nano,
                    'Set aside for the first hour of rental ' || v_id, null) = 'insufficient' then
    return query select 'insufficient'::text, v_rental;
    return;
  end if;

  -- One place leaves no choice.
  for v_round in case when jsonb_array_length(p_places) = 1 then 2 else 1 end .. 2 loop
    for v_place in select value from jsonb_array_elements(p_places) loop
      v_nodes := '[]';
      for v_machine in select value from jsonb_array_elements(v_place -> 'machines') loop
        v_indexes := case v_round
          when 1 then try_claim_share(v_machine ->> 'machineId', (v_machine ->> 'gpus')::integer, v_disk_gb, v_id, p_at)
          else claim_share(v_machine ->> 'machineId', (v_machine ->> 'gpus')::integer, v_disk_gb, v_id, p_at)
        end;
        exit when v_indexes is null;
        v_nodes := v_nodes || jsonb_build_object('machineId', v_machine ->> 'machineId', 'gpuIndexes', v_indexes);
      end loop;
      exit when v_indexes is not null;
      if v_nodes <> '[]' then perform release_gpus(v_id); end if;
    end loop;
    exit when v_indexes is not null;
  end loop;
  if v_indexes is null then
    return query select 'no_place'::text, v_rental;
    return;
  end if;

  foreach v_name in array p_names loop
    insert into rental (id, account_id, person_id, api_key_id, kind, name, label, region, cluster_name, gpu_type, gpu_count,
        network_type, driver, spec, convert_on_expiry, monitoring_enabled, auto_terminate_at, spending_limit_nano,
        status_since, created_at, due_at)
      overriding system value
      select v_id, r.account_id, r.person_id, r.api_key_id, r.kind, v_name, r.label, r.region, v_place ->> 'clusterName',
        r.gpu_type, r.gpu_count, r.network_type, r.driver,
        r.spec || jsonb_build_object('name', v_name, 'clusterName', v_place ->> 'clusterName', 'nodes', v_nodes),
        r.convert_on_expiry, r.monitoring_enabled, r.auto_terminate_at, r.spending_limit_nano, p_at, p_at, p_at
      from jsonb_populate_record(null::rental, p_rental) r
      on conflict (name) do nothing
      returning * into v_rental;
    exit when v_rental.id is not null;
  end loop;
  if v_rental.id is null then raise exception 'none of % names is free', cardinality(p_names); end if;
  insert into term (rental_id, n, term_type, effective_at, cost_nano_per_hour, reservation_ends_at, term_period_days,
      discount_percentage, original_cost_nano)
    select v_id, 1, t.term_type, t.effective_at, t.cost_nano_per_hour, t.reservation_ends_at, t.term_period_days,
      t.discount_percentage, t.original_cost_nano
    from jsonb_populate_record(null::term, p_term) t;
  return query select 'written'::text, v_rental;
end $$;
