-- What became of orders at an offer, and how many it had, in steps of ten minutes. Rows are deleted after seven days.
-- The table by day was never written.
drop table offer_outcome;
create table offer_outcome (
  driver      text not null,
  offer_id    text not null,
  -- Start of the ten minutes.
  at          timestamptz(3) not null,
  made        integer not null default 0,
  no_capacity integer not null default 0,
  -- Refused for another reason, or never ran.
  failed      integer not null default 0,
  -- Those that ran, and the sum of their times from the create to then.
  started     integer not null default 0,
  start_ms    bigint not null default 0,
  -- The lowest and highest count that the engine reported. null: it reports none, or did not report.
  lowest      integer,
  highest     integer,
  primary key (driver, offer_id, at)
);
create index offer_outcome_by_age on offer_outcome (at);
