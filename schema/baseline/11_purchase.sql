-- The cost of machines and volumes at other clouds.

-- A period in which a machine or a volume cost us one price. The first one begins and the last one ends by the rules of
-- the vendor.
create table purchase (
  id                  bigint generated always as identity primary key,
  provider_account_id text not null references provider_account,
  rental_id           integer references rental,
  volume_id           integer references volume,
  -- The id at the engine. A rental may have had several machines, if a create succeeded without an answer.
  external_id         text not null,
  nano_per_hour       bigint not null check (nano_per_hour >= 0),
  increment_ms        integer not null check (increment_ms > 0),
  minimum_ms          bigint not null check (minimum_ms >= 0),
  -- When the first period of the machine began.
  bought_at           timestamptz(3) not null,
  started_at          timestamptz(3) not null,
  -- When the machine or its price ended, plus the rest of the increment or minimum that is billed. null: it runs.
  ended_at            timestamptz(3),
  settled_until       timestamptz(3) not null,
  settled_nano        bigint not null default 0 check (settled_nano >= 0),
  settlements         integer not null default 0,
  check (bought_at <= started_at and started_at <= settled_until and settled_until <= coalesce(ended_at, settled_until)),
  constraint purchase_of_one check (num_nonnulls(rental_id, volume_id) = 1)
);
create unique index purchase_open on purchase (external_id) where ended_at is null;
create index purchase_by_rental on purchase (rental_id);
create index purchase_by_volume on purchase (volume_id) where volume_id is not null;

-- Costs that were posted for an account, by UTC day and rental or volume.
create table provider_cost (
  provider_account_id text not null references provider_account,
  day                 date not null,
  rental_id           integer references rental,
  volume_id           integer references volume,
  cost_nano           bigint not null check (cost_nano >= 0),
  constraint provider_cost_of_one check (num_nonnulls(rental_id, volume_id) = 1)
);
create unique index provider_cost_of_rental on provider_cost (provider_account_id, day, rental_id) where volume_id is null;
create unique index provider_cost_of_volume on provider_cost (provider_account_id, day, volume_id) where rental_id is null;

-- Books the cost of a period of a machine or a volume up to an instant.
create function ledger_cost(
  p_key text, p_at timestamptz, p_account text, p_rental integer, p_volume integer, p_amount bigint, p_memo text
) returns text language plpgsql as $$
declare
  v_answer text;
  v_day date := (p_at at time zone 'UTC')::date;
begin
  v_answer := ledger_post(p_key, 'cost', p_at, null, p_memo, null, null, p_rental, p_volume, null, null,
    array[ledger_account_id(null, 'payables')], array[ledger_account_id(null, 'cost_of_goods')], array[p_amount]);
  if v_answer <> 'posted' then
    return v_answer;
  end if;
  if p_volume is null then
    insert into provider_cost as c (provider_account_id, day, rental_id, cost_nano)
      values (p_account, v_day, p_rental, p_amount)
      on conflict (provider_account_id, day, rental_id) where volume_id is null
        do update set cost_nano = c.cost_nano + excluded.cost_nano;
  else
    insert into provider_cost as c (provider_account_id, day, volume_id, cost_nano)
      values (p_account, v_day, p_volume, p_amount)
      on conflict (provider_account_id, day, volume_id) where rental_id is null
        do update set cost_nano = c.cost_nano + excluded.cost_nano;
  end if;
  return v_answer;
end $$;
