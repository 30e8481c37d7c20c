-- Limits of people whom nobody knows yet, by network: an IPv4 address, or the IPv6 network of one client.

alter table email_code
  -- The network of the browser that asked for it. null: an earlier version wrote it.
  add column network text;
create index email_code_by_network on email_code (network, created_at);

alter table device_login
  -- The network of `address`. null: an earlier version wrote it.
  add column network text;
drop index device_login_by_address;
create index device_login_by_network on device_login (network, created_at);

-- Accounts that people opened by themselves. The rows only count, and are deleted after a day.
create table self_opened_account (
  account_id text primary key references account,
  network    text not null,
  created_at timestamptz(3) not null
);
create index self_opened_account_by_network on self_opened_account (network, created_at);
create index self_opened_account_by_age on self_opened_account (created_at);
