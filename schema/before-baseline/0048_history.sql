-- Reads that stay fast with a hundred million requests (`npm run bench -- history`).

-- Payments, machines and storage, of accounts whose requests make several charges per second. Servers of the previous
-- version do not use it.
create index posting_but_inference on posting (account_id, at, id)
  where kind not in ('hold', 'release') and (kind <> 'charge' or model is null);

-- The log of failed requests. They are few, so it costs the others nothing.
create index request_not_answered on request (account_id, at) where outcome <> 'answered';
