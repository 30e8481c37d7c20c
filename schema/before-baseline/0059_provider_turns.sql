-- Rate limits of other clouds are per account, and all servers use the same accounts. A row is one limit of an account
-- (the empty route is that of all requests): the next request is sent then, on whichever server.
create table provider_turn (
  provider_account_id text not null references provider_account,
  route text not null,
  next_at timestamptz not null,
  primary key (provider_account_id, route)
);
