-- Jobs that are ordered again and again. The job of a time and the next time are written in one transaction, so no time
-- has two jobs.
create table job_schedule (
  id              text primary key,
  account_id      text not null references account,
  -- Its jobs are ordered for this member with this key. When the key may no longer order, the schedule is paused.
  person_id       text not null references person,
  api_key_id      text not null references api_key,
  name            text check (length(name) between 1 and 255),
  -- Five fields in UTC.
  cron            text not null,
  -- JobPlan in src/store/job/schedule.ts: the job that is ordered.
  plan            jsonb not null,
  -- null: it is paused.
  next_at         timestamptz(3),
  last_at         timestamptz(3),
  -- null: none was ordered, or it was deleted.
  last_job_id     text references job on delete set null,
  -- Why the last job was not ordered, as a reason. null: it was.
  last_reason     text,
  created_at      timestamptz(3) not null
);
create index job_schedule_by_account on job_schedule (account_id, created_at, id);
create index job_schedule_due on job_schedule (next_at) where next_at is not null;
