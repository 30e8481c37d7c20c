-- How often machines were online, for the reliability that the marketplace shows, and money by day for operators.

-- Looked at every ten minutes. A day has at most 144 looks.
create table machine_uptime (
  machine_id text not null references machine on delete cascade,
  -- In UTC.
  day        date not null,
  looks      smallint not null check (looks > 0),
  online     smallint not null check (online between 0 and looks),
  primary key (machine_id, day)
);
create index machine_uptime_by_day on machine_uptime (day);

-- What all accounts together were charged on a day.
create index ledger_day_by_day on ledger_day (day);
