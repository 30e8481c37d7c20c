-- The last times that the whole ledger was recounted, by the daily loop or by an operator.
create table ledger_check (
  id       bigint generated always as identity primary key,
  at       timestamptz(3) not null,
  took_ms  integer not null check (took_ms >= 0),
  findings integer not null check (findings >= 0)
);
