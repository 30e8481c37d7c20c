-- What can be rented: machines with their GPUs, and what they cost.

create table machine (
  -- The node name that customers see.
  id                      text primary key check (length(id) between 1 and 100),
  driver                  text not null,
  cluster_name            text not null,
  region                  text not null,
  offering                text not null check (offering in ('marketplace', 'virtual-machine', 'bare-metal')),
  -- null: the house's own machine. Else the supplier is paid the price less the house's fee.
  supplier_id             text references account,
  status                  text not null check (status in ('node_ready', 'node_draining', 'node_lost', 'node_cleaning', 'node_quarantined')),
  -- The supplier or operator can take a machine off sale without touching what runs on it.
  listed                  boolean not null default true,
  -- h100, h200 or b200 where the v2 interface can name it; null for other models, which only the marketplace sells.
  gpu_type                text check (gpu_type in ('h100', 'h200', 'b200')),
  gpu_model               text not null,
  gpu_ram_mib             integer not null check (gpu_ram_mib > 0),
  gpu_form_factor         text check (gpu_form_factor in ('sxm5', 'sxm6', 'pcie')),
  network_type            text not null check (network_type in ('infiniband', 'ethernet')),
  ethernet_variant        text check (ethernet_variant in ('normal', 'rocev2')),
  gpus_total              integer not null check (gpus_total between 1 and 64),
  -- How many of them gpu_claim holds. Kept here so that a listing needs no count.
  gpus_claimed            integer not null default 0,
  -- Indexes of GPUs that are not sold: those that the engine reports as sick, and those that an operator has withdrawn.
  -- They stay claimed by whoever has them.
  gpus_sick               integer[] not null default '{}',
  gpus_withdrawn          integer[] not null default '{}',
  -- Neither claimed nor sick nor withdrawn. Kept by a trigger (0004).
  gpus_free               integer not null default 0,
  -- Marketplace only: v2 machines are priced by the price book.
  price_nano_per_gpu_hour bigint check (price_nano_per_gpu_hour between 0 and 1000000000000),
  has_persistent_storage  boolean not null default false,
  -- cpus, storage, ram, clock, interface: as the listing shows them.
  hardware                jsonb not null,
  seen_at                 timestamptz(3) not null,
  created_at              timestamptz(3) not null,
  constraint never_oversold check (gpus_claimed between 0 and gpus_total and gpus_free between 0 and gpus_total - gpus_claimed),
  constraint marketplace_is_priced check ((offering = 'marketplace') = (price_nano_per_gpu_hour is not null)),
  constraint v2_has_gpu_type check (offering = 'marketplace' or (gpu_type is not null and gpu_form_factor is not null))
);
create index machine_for_listing on machine (offering, id);
create index machine_for_placement on machine (offering, region, gpu_type, network_type) where offering <> 'marketplace';
create index machine_by_supplier on machine (supplier_id) where supplier_id is not null;

-- The operator's price book. A rental copies its price, so a change never touches what runs.
-- gpu_count is GPUs a machine; a bare-metal rental of several machines costs their sum.
create table gpu_price (
  machine_type       text not null check (machine_type in ('virtual-machine', 'bare-metal')),
  region             text not null,
  gpu_type           text not null check (gpu_type in ('h100', 'h200', 'b200')),
  network_type       text not null check (network_type in ('infiniband', 'ethernet')),
  gpu_count          integer not null check (gpu_count between 1 and 64),
  nano_per_gpu_hour  bigint not null check (nano_per_gpu_hour between 0 and 1000000000000),
  enabled            boolean not null default true,
  updated_at         timestamptz(3) not null,
  primary key (machine_type, region, gpu_type, network_type, gpu_count)
);

create table storage_price (
  region           text primary key,
  nano_per_gb_hour bigint not null check (nano_per_gb_hour between 1 and 1000000000),
  enabled          boolean not null default true,
  updated_at       timestamptz(3) not null
);

-- The discount that a term earns. account_id null: everyone; else a contract of that account.
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
