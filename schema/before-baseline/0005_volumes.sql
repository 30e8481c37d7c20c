-- Storage volumes. A volume lives in one region and can be attached to bare-metal rentals there.

create table volume (
  id                 integer generated always as identity primary key,
  account_id         text not null references account,
  person_id          text not null references person,
  -- The key that asked for it: its spending limits count this volume.
  api_key_id         text references api_key,
  region             text not null,
  driver             text not null,
  label              text not null,
  size_gb            integer not null check (size_gb > 0),
  cost_nano_per_hour bigint not null check (cost_nano_per_hour > 0),
  state              text not null default 'creating'
                     check (state in ('creating', 'active', 'suspended', 'deleting', 'deleted', 'failed')),
  state_reason       text,
  state_since        timestamptz(3) not null,
  -- The address under which rentals mount it. null: not made yet.
  vip                text,
  nonce              text not null default substr(replace(gen_random_uuid()::text, '-', ''), 1, 8),
  external_id        text,
  create_asked_at    timestamptz(3),
  created_at         timestamptz(3) not null,
  updated_at         timestamptz(3),
  started_at         timestamptz(3),
  terminated_at      timestamptz(3),
  due_at             timestamptz(3) not null,
  attempts           integer not null default 0,
  lease_token        uuid,
  lease_until        timestamptz(3)
);
create index volume_by_account on volume (account_id, id);
create index volume_due on volume (due_at) where state in ('creating', 'suspended', 'deleting');

alter table segment add constraint segment_volume_fk foreign key (volume_id) references volume;

create table attachment (
  volume_id   integer not null references volume,
  rental_id   integer not null references rental,
  state       text not null default 'attaching' check (state in ('attaching', 'attached', 'detaching')),
  asked_at    timestamptz(3) not null,
  due_at      timestamptz(3) not null,
  attempts    integer not null default 0,
  lease_token uuid,
  lease_until timestamptz(3),
  primary key (volume_id, rental_id)
);
create index attachment_by_rental on attachment (rental_id);
create index attachment_due on attachment (due_at) where state in ('attaching', 'detaching');
