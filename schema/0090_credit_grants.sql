-- Credit that was given and not bought: trials, vouchers, gifts of the operator. It is in the same balance as paid money,
-- and spent before it, what expires first before the rest. No charge writes anything here: what is left of a grant follows
-- from what the account has spent since the grants were last counted (`credit_grant_mark`), and from what it still has.

alter table posting drop constraint posting_kind_check;
alter table posting add constraint posting_kind_check check (kind in ('purchase', 'credit', 'adjustment', 'refund', 'hold',
  'release', 'charge', 'payout', 'credit_draw', 'credit_repayment', 'cost', 'payment_refund', 'dispute', 'dispute_return',
  'debt_repayment', 'payout_return', 'fee', 'credit_expiry'));

create table credit_grant (
  id               text primary key,
  account_id       text not null references account,
  kind             text not null check (kind in ('trial', 'voucher', 'operator')),
  amount_nano      bigint not null check (amount_nano > 0),
  -- Who got the trial or used the voucher. null: the operator gave it to the account.
  person_id        text references person,
  -- The card of a trial.
  card_fingerprint text,
  -- The posting of the credit.
  posting_key      text not null unique,
  granted_at       timestamptz(3) not null,
  -- null: never.
  expires_at       timestamptz(3),
  -- What was spent of it when grants of the account were last counted, and what was taken back after its end.
  used_nano        bigint not null default 0 check (used_nano >= 0),
  taken_nano       bigint not null default 0 check (taken_nano >= 0),
  -- Postings that took back.
  takes            smallint not null default 0,
  -- When the rest is taken back. null: never, or nothing is left.
  due_at           timestamptz(3),
  -- Nothing was left when it was last counted. null: something was.
  ended_at         timestamptz(3),
  constraint grant_is_not_overdrawn check (used_nano + taken_nano <= amount_nano),
  constraint ended_has_no_rest check ((ended_at is not null) = (used_nano + taken_nano = amount_nano)),
  constraint due_has_rest check (due_at is null or (ended_at is null and expires_at is not null)),
  constraint trial_is_personal check (
    kind <> 'trial' or num_nulls(person_id, card_fingerprint, expires_at) = 0)
);
create index credit_grant_by_account on credit_grant (account_id, granted_at);
create index credit_grant_open on credit_grant (account_id) where ended_at is null;
create index credit_grant_due on credit_grant (due_at) where due_at is not null;
-- A trial is given once: to a person, for a card, to an account.
create unique index credit_grant_trial_of_person on credit_grant (person_id) where kind = 'trial';
create unique index credit_grant_trial_of_card on credit_grant (card_fingerprint) where kind = 'trial';
create unique index credit_grant_trial_of_account on credit_grant (account_id) where kind = 'trial';

-- What an account had spent in all when its grants were last counted.
create table credit_grant_mark (
  account_id text primary key references account,
  spent_nano bigint not null
);

create table voucher (
  id                text primary key,
  -- SHA-256 of the code, which has 80 random bits. The code itself is shown once.
  code_hash         bytea not null unique check (octet_length(code_hash) = 32),
  -- The end of the code, to recognize it by.
  code_end          text not null check (length(code_end) = 4),
  amount_nano       bigint not null check (amount_nano > 0),
  uses              integer not null check (uses between 1 and 1000000),
  uses_per_account  integer not null check (uses_per_account between 1 and uses),
  used              integer not null default 0 check (used between 0 and uses),
  -- Until when it can be used. null: there is no such time.
  redeemable_until  timestamptz(3),
  -- How long its credit lasts. null: it does not expire.
  credit_days       integer check (credit_days between 1 and 3650),
  note              text not null check (length(note) <= 255),
  -- The key of the operator.
  created_by        text not null,
  created_at        timestamptz(3) not null,
  -- null: it can be used.
  revoked_at        timestamptz(3)
);
create index voucher_by_time on voucher (created_at, id);

create table voucher_use (
  voucher_id text not null references voucher,
  account_id text not null references account,
  -- 1, 2, … for each account.
  n          integer not null check (n >= 1),
  grant_id   text not null unique references credit_grant,
  used_at    timestamptz(3) not null,
  primary key (voucher_id, account_id, n)
);

-- Wrong codes. The rows only count, and are deleted after a day.
create table voucher_try (
  id         bigint generated always as identity primary key,
  account_id text not null references account,
  network    text not null,
  created_at timestamptz(3) not null
);
create index voucher_try_by_network on voucher_try (network, created_at);
create index voucher_try_by_account on voucher_try (account_id, created_at);
create index voucher_try_by_age on voucher_try (created_at);

-- A card that is saved without a payment, on a page of the processor. As with `payment`, the row is written before the call.
create table card_setup (
  -- The reference and the idempotency key at the processor.
  id          text primary key,
  account_id  text not null references account,
  person_id   text not null references person,
  is_live     boolean not null,
  state       text not null check (state in ('open', 'done', 'failed', 'expired')),
  customer_id text,
  session_id  text unique,
  session_url text,
  -- When to ask the processor again. null: an event makes it due.
  due_at      timestamptz(3),
  lease_token text,
  lease_until timestamptz(3),
  attempts    integer not null default 0,
  failure     text check (length(failure) <= 500),
  created_at  timestamptz(3) not null,
  expires_at  timestamptz(3) not null
);
create index card_setup_by_account on card_setup (account_id, created_at);
create index card_setup_due on card_setup (due_at) where due_at is not null;

-- What is left of each grant of an account that has not ended, from charges and balances alone. Together they are never
-- more than the account's own money: what a dispute or an adjustment took of it is gone.
create function credit_grant_rests(p_account text) returns table (id text, rest_nano bigint) language sql stable as $$
  with open as (
    select g.id, g.amount_nano - g.used_nano - g.taken_nano as nano,
      coalesce(sum(g.amount_nano - g.used_nano - g.taken_nano) over (
        order by g.expires_at nulls last, g.granted_at, g.id rows between unbounded preceding and 1 preceding), 0) as before
    from credit_grant g where g.account_id = p_account and g.ended_at is null
  ), standing as (
    select (select coalesce(sum(s.spent_nano), 0) from account_spend s where s.account_id = p_account)
        - (select coalesce(max(m.spent_nano), 0) from credit_grant_mark m where m.account_id = p_account) as spent,
      (select coalesce(sum(l.balance_nano), 0) from ledger_account l
       where l.account_id = p_account and l.kind in ('available', 'held'))
        - (select coalesce(max(c.used_nano), 0) from credit_line c where c.account_id = p_account) as own
  ), consumed as (
    select sum(o.nano) - greatest(0, least(sum(o.nano) - greatest(0, s.spent), s.own)) as nano
    from open o, standing s group by s.spent, s.own
  )
  select o.id, (o.nano - least(o.nano, greatest(0, c.nano - o.before)))::bigint from open o, consumed c
$$;

-- Counts what was spent of the account's grants, and begins to count anew. It is called before a grant is added, when one
-- expires, and after the balance has shrunk by other postings than charges.
create function settle_credit_grants(p_account text, p_at timestamptz) returns void language plpgsql as $$
begin
  perform 1 from ledger_account l where l.account_id = p_account order by l.id for update;
  update credit_grant g
    set used_nano = g.amount_nano - g.taken_nano - r.rest_nano,
      ended_at = case when r.rest_nano = 0 then p_at end,
      due_at = case when r.rest_nano > 0 then g.due_at end
    from credit_grant_rests(p_account) r where g.id = r.id;
  insert into credit_grant_mark (account_id, spent_nano)
    select p_account, coalesce(sum(s.spent_nano), 0)::bigint from account_spend s where s.account_id = p_account
    on conflict (account_id) do update set spent_nano = excluded.spent_nano;
end $$;

-- Takes back what is left of a grant that has expired, as far as it is available. What is on hold follows when it is
-- released; until then it can still be charged. Returns what was taken.
create function expire_credit_grant(p_id text, p_at timestamptz) returns bigint language plpgsql as $$
declare
  v_grant credit_grant;
  v_take  bigint;
begin
  select * into v_grant from credit_grant where id = p_id;
  if not found then return 0; end if;
  perform settle_credit_grants(v_grant.account_id, p_at);
  select * into v_grant from credit_grant where id = p_id for update;
  if v_grant.due_at is null or v_grant.due_at > p_at then return 0; end if;
  select least(l.balance_nano, v_grant.amount_nano - v_grant.used_nano - v_grant.taken_nano) into strict v_take
    from ledger_account l where l.account_id = v_grant.account_id and l.kind = 'available';
  if v_take > 0 then
    perform ledger_post('grant:' || p_id || ':expiry:' || v_grant.takes + 1, 'credit_expiry', p_at, v_grant.account_id,
      'Credit expired', null, null, null, null, null, null,
      array[ledger_account_id(v_grant.account_id, 'available')], array[ledger_account_id(null, 'adjustments')], array[v_take]);
  end if;
  update credit_grant
    set taken_nano = taken_nano + v_take, takes = takes + case when v_take > 0 then 1 else 0 end,
      ended_at = case when used_nano + taken_nano + v_take = amount_nano then p_at end,
      due_at = case when used_nano + taken_nano + v_take < amount_nano then p_at + interval '10 minutes' end
    where id = p_id;
  return v_take;
end $$;
