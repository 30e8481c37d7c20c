-- A GPU that breaks while it is rented costs its tenant nothing from then on: its claim says since when and why, and the
-- price of the rental is that of its other GPUs. A claim ends with a stop, so the next start has GPUs that work.
alter table gpu_claim
  add column faulty_since timestamptz(3),
  add column fault        text check (length(fault) <= 200),
  add constraint fault_has_a_time check ((faulty_since is null) = (fault is null));
create index gpu_claim_faulty on gpu_claim (rental_id) where faulty_since is not null;

-- Takes back a part of a charge, as ledger_charge made it: revenue → held, into the hold, and the supplier's part from its
-- earnings. Returns 'insufficient', and writes nothing, if the supplier has been paid that money already.
create function ledger_uncharge(
  p_key text, p_hold text, p_at timestamptz, p_amount bigint, p_memo text, p_supplier text, p_supplier_amount bigint,
  p_rental integer
) returns text language plpgsql as $$
declare
  v_account text;
  v_answer  text;
  v_from    bigint[];
  v_to      bigint[];
  v_amount  bigint[];
begin
  select account_id into strict v_account from hold where key = p_hold;
  v_from := array[ledger_account_id(null, 'revenue')];
  v_to := array[ledger_account_id(v_account, 'held')];
  v_amount := array[p_amount];
  if p_supplier is not null and p_supplier_amount > 0 then
    v_from := v_from || ledger_account_id(p_supplier, 'earnings');
    v_to := v_to || ledger_account_id(null, 'revenue');
    v_amount := v_amount || p_supplier_amount;
  end if;
  v_answer := ledger_post(p_key, 'refund', p_at, v_account, p_memo, null, null, p_rental, null, null, null, v_from, v_to, v_amount);
  if v_answer = 'posted' then
    update hold set amount_nano = amount_nano + p_amount where key = p_hold;
  end if;
  return v_answer;
end $$;
