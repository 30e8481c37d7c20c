-- Volumes of containers and virtual machines: where they are mounted, how much of them is used, growth and copies.
alter table attachment
  -- Where it is mounted in the machine. null: the engine decides, or it is a bare disk.
  add column path text,
  add column read_only boolean not null default false;

alter table workload_disk
  add column path text,
  add column read_only boolean not null default false;

alter table volume
  -- The machine that it was ordered for: a volume on a host's own disk stays there. null: any.
  add column machine_id text,
  -- The volume that it starts as a copy of. null: it starts empty.
  add column copy_of integer references volume,
  -- GB in use, as its engine last reported it. null: not known.
  add column used_gb double precision check (used_gb >= 0),
  -- The size that it is growing to, and its price from then on. null: it is not growing.
  add column grow_to_gb integer check (grow_to_gb > size_gb),
  add column grow_cost_nano_per_hour bigint check (grow_cost_nano_per_hour > 0),
  add constraint growth_has_a_price check ((grow_to_gb is null) = (grow_cost_nano_per_hour is null));
create index volume_growing on volume (due_at) where grow_to_gb is not null;

alter table host_volume
  -- Its size and use as its host reports them. null: the host has not said.
  add column found_gb integer,
  add column used_gb double precision,
  -- The volume on the same host that it starts as a copy of.
  add column copy_of text;
