-- Jobs: commands that run once, on the cheapest GPUs that fit. A job has one task, or one for each index of its array. A
-- task runs as one container rental at a time: its attempts.
create table job (
  id             text primary key,
  account_id     text not null references account,
  person_id      text not null references person,
  -- The key that ordered it: its spending limits count the rentals of the job.
  api_key_id     text not null references api_key,
  name           text check (length(name) between 1 and 255),
  -- JobSpec in src/contract/job.ts: what runs, and on which GPUs.
  spec           jsonb not null,
  -- The machines that it needs. While one job finds none, others with the same text find none either.
  demand         text not null,
  priority       smallint not null check (priority between -100 and 100),
  tasks          integer not null check (tasks >= 1),
  parallel       integer not null check (parallel between 1 and tasks),
  -- For all tasks and attempts together. null: no limit.
  max_cost_nano  bigint check (max_cost_nano >= 0),
  -- The longest running time of a task, over all its attempts.
  timeout_ms     bigint not null check (timeout_ms > 0),
  retries        smallint not null check (retries >= 0),

  state          text not null default 'Queued' check (state in ('Queued', 'Starting', 'Running', 'Succeeded', 'Failed',
                 'Cancelled', 'TimedOut')),
  -- Its tasks by state. No two servers can start more than `parallel` of them.
  queued         integer not null,
  starting       integer not null default 0,
  running        integer not null default 0,
  succeeded      integer not null default 0,
  failed         integer not null default 0,
  cancelled      integer not null default 0,
  timed_out      integer not null default 0,
  check (queued + starting + running + succeeded + failed + cancelled + timed_out = tasks),
  check (starting + running <= parallel),
  check ((ended_at is null) = (queued + starting + running > 0)),

  -- When its next task may start: later after a loss of its host.
  due_at         timestamptz(3) not null,
  -- Why its next task could not be ordered, as a reason of the table of reasons. null: it was not tried, or has started.
  blocked_reason text,
  blocked_detail text,
  cancel_requested_at timestamptz(3),
  created_at     timestamptz(3) not null,
  -- When all its tasks had ended. It is kept for thirty days from then on.
  ended_at       timestamptz(3)
);
create index job_by_account on job (account_id, created_at desc, id desc);
create index job_waiting on job (account_id, demand, priority desc, created_at, id) where queued > 0;
create index job_living on job (id) where ended_at is null;
create index job_ended on job (ended_at) where ended_at is not null;

-- When a task of an account was last started: the account that waits longest is served next.
create table job_turn (
  account_id text primary key references account,
  at         timestamptz(3) not null
);

create table job_task (
  job_id     text not null references job on delete cascade,
  -- Its index in the array, from 0.
  task       integer not null check (task >= 0),
  state      text not null default 'Queued' check (state in ('Queued', 'Starting', 'Running', 'Succeeded', 'Failed',
             'Cancelled', 'TimedOut')),
  -- Attempts that ended without its fault, and attempts that failed.
  restarts   smallint not null default 0,
  failures   smallint not null default 0,
  -- Running time of its ended attempts.
  ran_ms     bigint not null default 0 check (ran_ms >= 0),
  exit_code  smallint,
  -- Why it ended, as a word. null: it has not.
  reason     text,
  started_at timestamptz(3),
  ended_at   timestamptz(3),
  primary key (job_id, task),
  check ((ended_at is null) = (state in ('Queued', 'Starting', 'Running')))
);
create index job_task_waiting on job_task (job_id, task) where state = 'Queued';

create table job_attempt (
  job_id       text not null,
  task         integer not null,
  number       integer not null check (number >= 1),
  rental_id    integer not null unique references rental,
  machine_id   text not null,
  created_at   timestamptz(3) not null,
  -- null: it is the living attempt of its task.
  ended_at     timestamptz(3),
  -- How it ended: `succeeded`, `failed`, `lost`, `cancelled`, `timed_out`.
  outcome      text check (outcome in ('succeeded', 'failed', 'lost', 'cancelled', 'timed_out')),
  reason       text,
  exit_code    smallint,
  -- When its host had handed over the output, or had none. null: not yet, or never.
  collected_at timestamptz(3),
  -- The files of /berth/output as an archive. null: there are none, they were not kept, or they have expired.
  file_id      text references file on delete set null,
  -- JobOutput in src/contract/job.ts: its files, and why they were not kept.
  output       jsonb,
  -- Content of /berth/output/result.json. null: there is none.
  -- As it was written: jsonb refuses some texts that are valid.
  result       json,
  primary key (job_id, task, number),
  foreign key (job_id, task) references job_task on delete cascade,
  check ((ended_at is null) = (outcome is null))
);
-- A task never runs twice at a time.
create unique index job_attempt_living on job_attempt (job_id, task) where ended_at is null;
create index job_attempt_by_file on job_attempt (file_id) where file_id is not null;
