-- Machines that have the image of an account's jobs, since one of them ran there. At equal prices they come first.
create table job_warm_machine (
  account_id text not null references account,
  -- `name:tag`, as it was ordered.
  image      text not null,
  machine_id text not null,
  at         timestamptz(3) not null,
  primary key (account_id, image, machine_id)
);
create index job_warm_machine_old on job_warm_machine (at);
