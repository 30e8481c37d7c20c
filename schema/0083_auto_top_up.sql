-- Automatic top-ups: rules that hold whatever a server has read before, and what a payment keeps between two steps.

-- The processor's calculation of the tax. The charge names it, so a repeated call must name the same one. null: none yet.
alter table payment add column calculation_id text;
alter table payment add constraint calculation_has_tax check (calculation_id is null or tax_nano is not null);
-- The automatic payment that a bank wanted its customer to confirm: this one is the page for it. null: it stands alone.
alter table payment add column confirms_id text unique references payment;
alter table payment add constraint confirmation_is_checkout check (confirms_id is null or kind = 'checkout');

alter table auto_top_up drop constraint auto_top_up_off_reason_check;
alter table auto_top_up add constraint auto_top_up_off_reason_check
  check (off_reason in ('failures', 'card_removed', 'authentication', 'dispute'));
-- One charge brings every balance back above the threshold.
alter table auto_top_up add constraint one_charge_is_enough check (amount_nano >= below_nano);
-- Until the next month, when the cap has room again. null: it is not known to be reached.
alter table auto_top_up add column paused_until timestamptz(3);

create function automatic_payment_is_alone() returns trigger language plpgsql as $$
begin
  perform 1 from auto_top_up where account_id = new.account_id for update;
  if exists (select 1 from payment where account_id = new.account_id and kind = 'automatic' and id <> new.id
             and created_at > new.created_at - interval '1 hour') then
    raise exception 'payment % comes within an hour of another', new.id
      using errcode = 'check_violation', constraint = 'payment_once_an_hour';
  end if;
  return null;
end $$;
create trigger payment_once_an_hour after insert on payment
  for each row when (new.kind = 'automatic') execute function automatic_payment_is_alone();
create index payment_automatic on payment (account_id, created_at) where kind = 'automatic';
