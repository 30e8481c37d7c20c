-- Models that turn speech into text, with an engine of their own. Their unit is the millisecond of decoded sound.
alter table model drop constraint model_kind_check;
alter table model add constraint model_kind_check
  check (kind in ('chat', 'embedding', 'rerank', 'image', 'speech', 'transcription'));
alter table model drop constraint model_engine_check;
alter table model add constraint model_engine_check
  check (engine in ('llama', 'speech', 'embedding', 'picture', 'transcription'));
alter table model add column sound_ms_nano bigint not null default 0 check (sound_ms_nano >= 0);
