-- How far an account is trusted: `new` accounts, which people opened by themselves, spend little per hour and add little money
-- per day; `paid` begins a week after their first payment; `trusted` has the usual quota. A server of the version before
-- opens accounts as trusted, with their other small quotas.
alter table account add column stage text not null default 'trusted' check (stage in ('new', 'paid', 'trusted'));
create index account_new on account (id) where stage = 'new';

alter table payment
  -- The network of whoever asked for it. null: an automatic one, or of an earlier version.
  add column network text;
alter table card_setup add column network text;

-- Cards that a bank declined, one row per message of the processor.
create table card_decline (
  -- The processor's id of the message.
  event_id   text primary key,
  account_id text not null references account,
  -- null: unknown.
  network    text,
  created_at timestamptz(3) not null
);
create index card_decline_by_account on card_decline (account_id, created_at);
create index card_decline_by_network on card_decline (network, created_at);
create index card_decline_by_age on card_decline (created_at);

alter table payment_alert drop constraint payment_alert_kind_check;
alter table payment_alert add constraint payment_alert_kind_check
  check (kind in ('foreign', 'mismatch', 'dispute', 'fraud_warning', 'difference', 'payout', 'declines'));

-- What the account's rentals and volumes can cost per hour: a stopped rental counts in full, since it can start at any time.
create function hourly_spend(p_account text) returns bigint language sql stable as $$
  select ((select coalesce(sum(t.cost_nano_per_hour), 0)
      from rental r
      join lateral (select cost_nano_per_hour from term where rental_id = r.id order by n desc limit 1) t on true
      where r.account_id = p_account
        and r.status in ('Pending', 'Running', 'Unknown', 'Stopping', 'Stopped', 'Starting'))
    + (select coalesce(sum(s.price_nano_per_hour), 0)
      from segment s where s.account_id = p_account and s.rental_id is null and s.ended_at is null))::bigint
$$;

-- Orders of accounts that are not trusted stay within their hourly spend. They are placed alone, under the lock of their
-- balances, so that orders at once see each other. `hourly_limits` of an order has the usual limit of each stage, in USD.
alter function place_orders(jsonb, timestamptz, boolean) rename to place_orders_without_stage;
create function place_orders(p_orders jsonb, p_at timestamptz, p_waits boolean)
returns table (n integer, outcome text, detail jsonb, rental rental) language plpgsql
set enable_seqscan = 'off' as $$
#variable_conflict use_column
declare
  v_accounts text[] := array(select o ->> 'account_id' from jsonb_array_elements(p_orders) o);
  v_limited  text[];
  v_refused  jsonb;
begin
  select array_agg(a.id) into v_limited from account a
    where a.id = any (v_accounts) and (a.stage <> 'trusted' or a.quota ? 'hourlySpendUsd');
  if v_limited is null then
    return query select p.n, p.outcome, p.detail, p.rental from place_orders_without_stage(p_orders, p_at, p_waits) p;
    return;
  end if;
  if not p_waits then
    return query select (o ->> 'n')::integer, 'again', null::jsonb, null::rental
      from jsonb_array_elements(p_orders) o where o ->> 'account_id' = any (v_limited);
    select jsonb_agg(o) into p_orders from jsonb_array_elements(p_orders) o where o ->> 'account_id' <> all (v_limited);
  else
    perform 1 from ledger_account l where l.account_id = any (v_accounts) order by l.id for update;
    select jsonb_agg(jsonb_build_object('n', o.n, 'detail', jsonb_build_object(
        'limit', o.limit_nano::text, 'used', o.used_nano::text, 'cost', o.cost_nano_per_hour::text)))
      into v_refused
      from (
        select o.n, o.cost_nano_per_hour, s.used_nano, s.limit_nano,
          s.used_nano + sum(o.cost_nano_per_hour) over (partition by o.account_id order by o.n) as all_nano
        from jsonb_to_recordset(p_orders) as o (n integer, account_id text, cost_nano_per_hour bigint, hourly_limits jsonb)
        join account a on a.id = o.account_id and a.id = any (v_limited)
        cross join lateral (
          select hourly_spend(a.id) as used_nano,
            coalesce((a.quota ->> 'hourlySpendUsd')::bigint, (o.hourly_limits ->> a.stage)::bigint) * 1000000000 as limit_nano
        ) s
      ) o
      where o.all_nano > o.limit_nano and o.cost_nano_per_hour > 0;
    if v_refused is not null then
      return query select (o ->> 'n')::integer, 'hourly_spend_exceeded', o -> 'detail', null::rental
        from jsonb_array_elements(v_refused) o;
      select jsonb_agg(o) into p_orders from jsonb_array_elements(p_orders) o
        where not exists (select from jsonb_array_elements(v_refused) r where r -> 'n' = o -> 'n');
    end if;
  end if;
  if p_orders is not null then
    return query select p.n, p.outcome, p.detail, p.rental from place_orders_without_stage(p_orders, p_at, p_waits) p;
  end if;
end $$;
