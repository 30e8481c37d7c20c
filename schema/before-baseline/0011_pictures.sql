-- Pictures by an engine of our own; and which of the models that come with Berth an installation was offered.

alter table model drop constraint model_engine_check;
alter table model add constraint model_engine_check check (engine in ('llama', 'speech', 'embedding', 'picture'));

-- Each model that comes with Berth is offered once, at the first start of a version that has it. One that the operator
-- took away, or that was to be left out (BERTH_DEFAULT_MODELS), does not come back.
create table offered_model (
  name text primary key,
  at   timestamptz(3) not null
);

-- Where there was a first start before this table, these three were offered at it.
insert into offered_model (name, at)
select name, now()
from (values ('tinyllama-1.1b-chat'), ('berth-voice'), ('all-minilm-l6-v2')) as first_three (name)
where exists (select from model)
   or exists (select from audit where actor = 'first start' and action = 'model.create');
