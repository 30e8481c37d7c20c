-- Machines that can be rented, with their GPUs and prices.

-- Clouds and autoscaled clusters say what they could still create, not which machines exist. Each unit of such an offer is
-- a row here, so that claims, placement and listings work as they do for machines.
create table machine (
  -- The node name that customers see.
  id                       text primary key check (length(id) between 1 and 100),
  driver                   text not null,
  cluster_name             text not null,
  region                   text not null,
  offering                 text not null check (offering in ('marketplace', 'virtual-machine', 'bare-metal')),
  -- The supplier is paid the price less the house's fee. null: the house's own machine.
  supplier_id              text references account,
  status                   text not null
                           check (status in ('node_ready', 'node_draining', 'node_lost', 'node_cleaning', 'node_quarantined')),
  -- The supplier or operator can take a machine off sale without touching what runs on it.
  listed                   boolean not null default true,
  -- The parts that do not exist: the machine, or only its GPUs. null: it is real.
  simulation               text check (simulation in ('machine', 'gpus')),
  -- The engine's offer that this is a unit of. null: a machine.
  offer_id                 text,
  -- It is rented with all its GPUs or not at all, although it is not bare metal.
  sold_whole               boolean not null default false,
  seen_at                  timestamptz(3) not null,
  created_at               timestamptz(3) not null,

  -- h100, h200 or b200, which the v2 interface can name. null: another model, which only the marketplace sells.
  gpu_type                 text check (gpu_type in ('h100', 'h200', 'b200')),
  gpu_model                text not null,
  gpu_ram_mib              integer not null check (gpu_ram_mib > 0),
  gpu_form_factor          text check (gpu_form_factor in ('sxm5', 'sxm6', 'pcie')),
  network_type             text not null check (network_type in ('infiniband', 'ethernet')),
  ethernet_variant         text check (ethernet_variant in ('normal', 'rocev2')),
  has_persistent_storage   boolean not null default false,
  -- cpus, storage, ram, clock, interface: as the listing shows them.
  hardware                 jsonb not null,

  gpus_total               integer not null check (gpus_total between 1 and 64),
  -- The number of rows in gpu_claim, so that a listing needs no count.
  gpus_claimed             integer not null default 0,
  -- Indexes of GPUs that are not sold: those that the engine reports as sick, and those that an operator has withdrawn.
  -- They stay claimed by whoever has them.
  gpus_sick                integer[] not null default '{}',
  gpus_withdrawn           integer[] not null default '{}',
  -- The number of GPUs that are not claimed, sick or withdrawn; see 08_claim.sql.
  gpus_free                integer not null default 0,
  -- The disks of all rentals on the machine, in GB; see 08_claim.sql.
  disk_claimed_gb          double precision not null default 0,
  -- The disk that a free GPU comes with: its part of the machine, or of the space that others have left.
  disk_gb_per_gpu          double precision not null generated always as (
    least((hardware ->> 'storageGb')::double precision / gpus_total,
      greatest(0, (hardware ->> 'storageGb')::double precision - disk_claimed_gb) / greatest(1, gpus_total - gpus_claimed))
  ) stored,

  -- Marketplace only: v2 machines are priced by the price book.
  price_nano_per_gpu_hour  bigint check (price_nano_per_gpu_hour between 0 and 1000000000000),
  -- The engine's price for it. null: it costs nothing by the hour.
  cost_nano_per_gpu_hour   bigint check (cost_nano_per_gpu_hour between 0 and 1000000000000),
  -- The price that the rule of its account asks for a unit of an offer, while the price book is below that: the unit is
  -- not on sale then, since the price belongs to the rule of another account. null: it is sold at the price book.
  asking_nano_per_gpu_hour bigint check (asking_nano_per_gpu_hour >= 0),
  -- This is copied from the provider account that offers it.
  preference               integer not null default 0,
  sells_below_cost         boolean not null default false,

  constraint never_oversold check (gpus_claimed between 0 and gpus_total and gpus_free between 0 and gpus_total - gpus_claimed),
  constraint marketplace_is_priced check ((offering = 'marketplace') = (price_nano_per_gpu_hour is not null)),
  constraint v2_has_gpu_type check (offering = 'marketplace' or (gpu_type is not null and gpu_form_factor is not null))
);
create index machine_for_listing on machine (offering, id);
create index machine_for_placement on machine (offering, region, gpu_type, network_type) where offering <> 'marketplace';
-- The fullest machines with free GPUs of an engine, first. Units of offers are few.
create index machine_with_room on machine (driver, offering, region, gpu_type, network_type, gpus_free, id)
  where offering <> 'marketplace' and status = 'node_ready' and listed and offer_id is null;
create index machine_by_supplier on machine (supplier_id) where supplier_id is not null;
create index machine_by_offer on machine (driver, offer_id) where offer_id is not null;

-- How often a machine was online, for the reliability that the marketplace shows. It is looked at every ten minutes, so
-- a day has at most 144 looks.
create table machine_uptime (
  machine_id text not null references machine on delete cascade,
  -- The day in UTC.
  day        date not null,
  looks      smallint not null check (looks > 0),
  online     smallint not null check (online between 0 and looks),
  primary key (machine_id, day)
);
create index machine_uptime_by_day on machine_uptime (day);

-- The operator's price book. A rental copies its price, so a change never affects what runs. gpu_count is the GPUs of a
-- machine; a bare-metal rental of several machines costs their sum.
create table gpu_price (
  machine_type        text not null check (machine_type in ('virtual-machine', 'bare-metal')),
  region              text not null,
  gpu_type            text not null check (gpu_type in ('h100', 'h200', 'b200')),
  network_type        text not null check (network_type in ('infiniband', 'ethernet')),
  gpu_count           integer not null check (gpu_count between 1 and 64),
  nano_per_gpu_hour   bigint not null check (nano_per_gpu_hour between 0 and 1000000000000),
  enabled             boolean not null default true,
  updated_at          timestamptz(3) not null,
  -- The account whose rule made this price. null: the operator set it, and no rule changes it.
  provider_account_id text references provider_account,
  primary key (machine_type, region, gpu_type, network_type, gpu_count)
);

create table storage_price (
  region           text primary key,
  nano_per_gb_hour bigint not null check (nano_per_gb_hour between 1 and 1000000000),
  enabled          boolean not null default true,
  updated_at       timestamptz(3) not null
);

-- The discount that a term earns: for everyone (account_id null), or by the contract of one account.
create table reserve_option (
  id                  bigint generated always as identity primary key,
  account_id          text references account,
  term_period_days    integer not null check (term_period_days between 1 and 3650),
  discount_percentage numeric(5, 2) not null check (discount_percentage >= 0 and discount_percentage < 100)
);
create unique index reserve_option_for_all on reserve_option (term_period_days) where account_id is null;
create unique index reserve_option_for_one on reserve_option (account_id, term_period_days) where account_id is not null;

create table reservation_request (
  id         bigint generated always as identity primary key,
  account_id text not null references account,
  gpu_count  integer not null check (gpu_count >= 1),
  created_at timestamptz(3) not null
);
