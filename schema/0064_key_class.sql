-- How the requests of a key wait when a model is busy: those of class batch take slots that nobody else waits for, and at
-- least one in sixteen.
alter table api_key add column class text not null default 'interactive' check (class in ('interactive', 'batch'));
