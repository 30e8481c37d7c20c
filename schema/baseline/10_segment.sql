-- The meter: time is charged in segments, each at one price. The segments of one rental or volume never overlap;
-- together they are its bill.

create table segment (
  id                  bigint generated always as identity primary key,
  account_id          text not null references account,
  rental_id           integer references rental,
  volume_id           integer constraint segment_volume_fk references volume,
  hold_key            text not null references hold,
  started_at          timestamptz(3) not null,
  -- null: still running.
  ended_at            timestamptz(3),
  -- The rental was off: it pays for the disk only.
  while_stopped       boolean not null default false,
  -- The rental ran without its GPUs.
  without_gpus        boolean not null default false,
  price_nano_per_hour bigint not null check (price_nano_per_hour >= 0),
  supplier_id         text references account,
  platform_fee_bp     integer,
  -- High-water marks: charged up to when, how much in all, and how much of it went to the supplier.
  settled_until       timestamptz(3) not null,
  settled_nano        bigint not null default 0 check (settled_nano >= 0),
  supplier_nano       bigint not null default 0 check (supplier_nano >= 0),
  settlements         integer not null default 0,
  -- When the meter should look again.
  due_at              timestamptz(3) not null,
  check (num_nonnulls(rental_id, volume_id) = 1),
  check (ended_at >= started_at),
  check (settled_until >= started_at and (ended_at is null or settled_until <= ended_at)),
  check ((supplier_id is null) = (platform_fee_bp is null)),
  constraint rental_segments_never_overlap exclude using gist
    (int4range(rental_id, rental_id, '[]') with &&, tstzrange(started_at, ended_at) with &&) where (rental_id is not null),
  constraint volume_segments_never_overlap exclude using gist
    (int4range(volume_id, volume_id, '[]') with &&, tstzrange(started_at, ended_at) with &&) where (volume_id is not null)
);
create index segment_by_rental on segment (rental_id) where rental_id is not null;
create index segment_by_volume on segment (volume_id) where volume_id is not null;
create index segment_open on segment (due_at) where ended_at is null;
create index segment_open_by_account on segment (account_id) where ended_at is null;

-- Charges of running segments are written many at a time. Each one alone takes eleven statements and their round trips;
-- with 50,000 rentals, 167 are due every second.
create type segment_settlement as (
  segment_id    bigint,
  -- The number of this settlement of the segment, from 1.
  n             integer,
  account_id    text,
  hold_key      text,
  rental_id     integer,
  api_key_id    text,
  memo          text,
  until         timestamptz(3),
  due_at        timestamptz(3),
  -- Money into the hold, and out of it; and the supplier's part of the charge.
  top_up_nano   bigint,
  charge_nano   bigint,
  supplier_id   text,
  supplier_nano bigint
);

-- Writes planned settlements of segments that go on: the same rows that ledger_hold, ledger_charge and an update of the
-- segment write for each. The caller has locked the rentals, the balances of their accounts and those of their
-- suppliers. Raises, and writes nothing, if one of them cannot be settled.
create function settle_segments(p_settlements jsonb, p_at timestamptz) returns void language plpgsql
set plan_cache_mode = 'force_generic_plan' as $$
#variable_conflict use_column
declare
  v_all     segment_settlement[];
  v_revenue bigint := ledger_account_id(null, 'revenue');
  v_month   date := date_trunc('month', p_at at time zone 'UTC')::date;
  v_rows    integer;
begin
  select array_agg(s order by s.segment_id) into v_all from jsonb_populate_recordset(null::segment_settlement, p_settlements) s;

  with posted as (
    insert into posting (key, kind, at, account_id, memo)
      select format('segment:%s:%s:hold', s.segment_id, s.n), 'hold', p_at, s.account_id, 'Held for ' || s.memo
      from unnest(v_all) s where s.top_up_nano > 0
      returning id, key
  )
  insert into transfer (posting_id, from_id, to_id, amount_nano)
    select posted.id, f.id, t.id, s.top_up_nano
    from unnest(v_all) s
    join posted on posted.key = format('segment:%s:%s:hold', s.segment_id, s.n)
    join ledger_account f on f.account_id = s.account_id and f.kind = 'available'
    join ledger_account t on t.account_id = s.account_id and t.kind = 'held'
    order by posted.id;

  with posted as (
    insert into posting (key, kind, at, account_id, memo, rental_id, api_key_id)
      select format('segment:%s:%s', s.segment_id, s.n), 'charge', p_at, s.account_id, s.memo, s.rental_id, s.api_key_id
      from unnest(v_all) s where s.charge_nano > 0
      returning id, key
  )
  insert into transfer (posting_id, from_id, to_id, amount_nano)
    select posted.id, leg.from_id, leg.to_id, leg.nano
    from unnest(v_all) s
    join posted on posted.key = format('segment:%s:%s', s.segment_id, s.n)
    join ledger_account held on held.account_id = s.account_id and held.kind = 'held'
    cross join lateral (
      select 1 as leg, held.id as from_id, v_revenue as to_id, s.charge_nano as nano
      union all
      select 2, v_revenue, ledger_account_id(s.supplier_id, 'earnings'), s.supplier_nano
      where s.supplier_id is not null and s.supplier_nano > 0) leg
    order by posted.id, leg.leg;

  update ledger_account l set balance_nano = l.balance_nano + change.nano
    from (
      select leg.account_id, leg.kind, sum(leg.nano)::bigint as nano
      from unnest(v_all) s
      cross join lateral (values (s.account_id, 'available', -s.top_up_nano), (s.account_id, 'held', s.top_up_nano - s.charge_nano),
        (s.supplier_id, 'earnings', s.supplier_nano)) leg (account_id, kind, nano)
      where leg.account_id is not null and leg.nano <> 0
      group by 1, 2) change
    where l.account_id = change.account_id and l.kind = change.kind;

  update hold h set amount_nano = h.amount_nano + s.top_up_nano - s.charge_nano,
      -- As ledger_hold does.
      expires_at = case when s.top_up_nano > 0 then null else h.expires_at end
    from unnest(v_all) s where h.key = s.hold_key;
  get diagnostics v_rows = row_count;
  if v_rows <> cardinality(v_all) then raise exception 'a segment has no hold of its own'; end if;

  insert into key_spend (api_key_id, month, spent_nano)
    select s.api_key_id, v_month, sum(s.charge_nano)::bigint
    from unnest(v_all) s where s.api_key_id is not null and s.charge_nano > 0
    group by s.api_key_id order by s.api_key_id
    on conflict (api_key_id, month) do update set spent_nano = key_spend.spent_nano + excluded.spent_nano;

  update segment g set settled_until = s.until, settled_nano = g.settled_nano + s.charge_nano,
      supplier_nano = g.supplier_nano + s.supplier_nano, settlements = s.n, due_at = s.due_at
    from unnest(v_all) s
    where g.id = s.segment_id and g.settlements = s.n - 1 and g.ended_at is null;
  get diagnostics v_rows = row_count;
  if v_rows <> cardinality(v_all) then raise exception 'a segment was settled meanwhile'; end if;
end $$;
