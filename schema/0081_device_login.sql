-- `berth login`: how long a device asks for, and wrong codes that people type.

alter table device_login
  -- null: it does not say.
  add column days smallint check (days between 1 and 90);
create index device_login_by_address on device_login (address, created_at);

alter table person
  -- Codes of devices that the person typed wrong, and since when they are counted. Too many end what could be approved.
  add column wrong_device_codes       smallint not null default 0,
  add column wrong_device_codes_since timestamptz(3);
