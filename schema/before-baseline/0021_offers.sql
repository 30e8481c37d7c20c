-- Engines that have offers instead of machines: clouds and autoscaled clusters say what they could still make, not which
-- machines stand there. Each unit of an offer is a row of `machine`, so that claims, placement and listings work as they
-- do for machines. Older servers write machines without any of these columns.
alter table machine
  -- What of it does not exist: the machine, or only its GPUs. null: it is real.
  add column simulation text check (simulation in ('machine', 'gpus')),
  -- The engine's offer that this is a unit of. null: a machine.
  add column offer_id text,
  -- Rented with all its GPUs or not at all, although it is not bare metal.
  add column sold_whole boolean not null default false,
  -- What the engine charges us for it. null: it costs nothing by the hour.
  add column cost_nano_per_gpu_hour bigint check (cost_nano_per_gpu_hour between 0 and 1000000000000);

update machine set simulation = case when driver = 'mock' then 'machine' else 'gpus' end
  where driver = 'mock' or hardware ->> 'simulated' = 'true';
create index machine_by_offer on machine (driver, offer_id) where offer_id is not null;

-- Machines and offers whose engine had no capacity when it was asked to create this rental: it is not asked again.
alter table rental add column refused_by text[] not null default '{}';
