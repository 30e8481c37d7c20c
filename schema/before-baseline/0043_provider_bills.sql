-- Costs of volumes at other clouds, and imported bills.

-- A purchase is of a machine or of a volume.
alter table purchase alter column rental_id drop not null;
alter table purchase add column volume_id integer references volume;
alter table purchase add constraint purchase_of_one check (num_nonnulls(rental_id, volume_id) = 1);
create index purchase_by_volume on purchase (volume_id) where volume_id is not null;

alter table provider_cost drop constraint provider_cost_pkey;
alter table provider_cost alter column rental_id drop not null;
alter table provider_cost add column volume_id integer references volume;
alter table provider_cost add constraint provider_cost_of_one check (num_nonnulls(rental_id, volume_id) = 1);
create unique index provider_cost_of_rental on provider_cost (provider_account_id, day, rental_id) where volume_id is null;
create unique index provider_cost_of_volume on provider_cost (provider_account_id, day, volume_id) where rental_id is null;

drop function ledger_cost(text, timestamptz, text, integer, bigint, text);

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

-- An imported bill or usage list of a cloud.
create table provider_bill (
  id                  text primary key,
  provider_account_id text not null references provider_account,
  -- Of its period and lines: the same bill is imported once.
  digest              text not null,
  label               text not null,
  -- First and last UTC day that it bills. null: from the start of the machines, to their end.
  from_day            date,
  to_day              date,
  -- By the key or session of an operator.
  imported_by         text not null,
  imported_at         timestamptz(3) not null,
  unique (provider_account_id, digest),
  check (from_day <= to_day)
);

-- Its amounts by machine or volume. A credit is below zero.
create table provider_bill_line (
  bill_id     text not null references provider_bill on delete cascade,
  -- The id at the cloud.
  machine     text not null,
  billed_nano bigint not null,
  primary key (bill_id, machine)
);
