-- Owners add any address as a member, so a member gets e-mail about an account only after confirming it, or where the
-- operator entered the address. null: not confirmed, and no notification is sent.
alter table member add column mail_confirmed_at timestamptz(3);

-- The operator entered the first member of each account.
update member set mail_confirmed_at = created_at
where (account_id, person_id) in (
  select distinct on (account_id) account_id, person_id from member order by account_id, created_at, person_id);

-- Confirmation e-mails that were sent, to limit them per account and per address.
create table mail_confirmation (
  id         bigint generated always as identity primary key,
  account_id text not null references account,
  person_id  text not null references person,
  sent_at    timestamptz(3) not null
);
create index mail_confirmation_by_account on mail_confirmation (account_id, sent_at);
create index mail_confirmation_by_person on mail_confirmation (person_id, sent_at);
create index mail_confirmation_by_age on mail_confirmation (sent_at);
