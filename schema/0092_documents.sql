-- Who sells, who buys, the tax by the operator's own rates, and the documents that follow: invoices, credit notes and
-- self-billing invoices, numbered without gaps.

-- The operator's company. One row; none: no documents are issued.
create table seller (
  id          boolean primary key default true check (id),
  name        text not null check (length(name) between 1 and 200),
  line1       text not null check (length(line1) between 1 and 200),
  line2       text check (length(line2) between 1 and 200),
  postal_code text check (length(postal_code) between 1 and 20),
  city        text not null check (length(city) between 1 and 100),
  state       text check (length(state) between 1 and 100),
  country     text not null check (country ~ '^[A-Z]{2}$'),
  -- As it is printed. null: it has none.
  tax_id      text check (length(tax_id) between 1 and 50),
  email       text check (length(email) between 3 and 254),
  -- At the foot of every document, such as the register and the number of the company. null: nothing.
  footer      text check (length(footer) between 1 and 500),
  -- Who decides about tax: the payment processor, or the rates in `tax_rate`.
  tax_by      text not null check (tax_by in ('processor', 'rates')),
  updated_at  timestamptz(3) not null
);

-- Tax on sales to a country. A country without a row is not taxed.
create table tax_rate (
  country       text primary key check (country ~ '^[A-Z]{2}$'),
  -- As it is printed: VAT, GST, MwSt.
  name          text not null check (length(name) between 1 and 40),
  -- Thousandths of a percent.
  percent_milli integer not null check (percent_milli between 1 and 100000),
  updated_at    timestamptz(3) not null
);

-- Whom documents are made out to. An account without a row is named as it is, without an address.
create table billing_details (
  account_id    text primary key references account,
  name          text not null check (length(name) between 1 and 200),
  line1         text not null check (length(line1) between 1 and 200),
  line2         text check (length(line2) between 1 and 200),
  postal_code   text check (length(postal_code) between 1 and 20),
  city          text not null check (length(city) between 1 and 100),
  state         text check (length(state) between 1 and 100),
  country       text not null check (country ~ '^[A-Z]{2}$'),
  -- With the prefix of its country. null: none was given.
  vat_id        text check (vat_id ~ '^[A-Z]{2}[A-Z0-9]{2,18}$'),
  -- `pending`: nobody has checked yet whether it exists.
  vat_state     text check (vat_state in ('pending', 'verified', 'unverified')),
  -- `processor`, or the key of an operator. null: nobody yet.
  vat_checked_by text,
  vat_checked_at timestamptz(3),
  -- The customer and the tax ID at the processor that only serve the check. null: it does not check, or has.
  check_customer_id text,
  check_id      text unique,
  -- The customer's own number of the order, printed on each document. null: none.
  po_number     text check (length(po_number) between 1 and 100),
  -- Counts changes: the processor gets each once.
  version       integer not null default 1,
  -- When to look at the check again. null: there is nothing to look at.
  due_at        timestamptz(3),
  lease_token   text,
  lease_until   timestamptz(3),
  attempts      integer not null default 0,
  updated_at    timestamptz(3) not null,
  constraint vat_id_has_state check ((vat_id is null) = (vat_state is null)),
  constraint checked_by_somebody check ((vat_checked_by is null) = (vat_checked_at is null)),
  constraint verdict_has_source check (vat_state is null or vat_state = 'pending' or vat_checked_by is not null)
);
create index billing_details_due on billing_details (due_at) where due_at is not null;
create index billing_details_pending on billing_details (updated_at) where vat_state = 'pending';

-- Which version of the details the processor's customer has. null: none.
alter table billing_profile add column details_version integer;

-- How the tax of a payment was decided. null: not yet, or before this version.
alter table payment add column tax_basis jsonb;
alter table payment add constraint basis_has_tax check (tax_basis is null or tax_nano is not null);

-- The last number of each series and year. A number is taken in the transaction of its document, and the row is locked until its
-- end: a rollback gives the number back, and two transactions never take the same one. It is the last lock of a transaction.
create table document_number (
  series text not null check (series ~ '^[A-Z]{1,8}$'),
  year   smallint not null check (year between 2000 and 9999),
  last   integer not null check (last between 1 and 999999999),
  primary key (series, year)
);

create table document (
  number      text primary key,
  series      text not null,
  year        smallint not null,
  sequence    integer not null,
  kind        text not null check (kind in ('invoice', 'credit_note', 'self_billing')),
  account_id  text not null references account,
  -- What it is about: a payment, a refund, a dispute, a payout. One document of a kind for each.
  subject     text not null check (length(subject) between 1 and 200),
  -- The document that it takes back, as a whole or in part. null: none.
  corrects    text references document,
  -- Before tax.
  amount_nano bigint not null check (amount_nano >= 0),
  tax_nano    bigint not null check (tax_nano >= 0),
  -- All that is printed.
  data        jsonb not null,
  issued_at   timestamptz(3) not null,
  unique (kind, subject),
  unique (series, year, sequence),
  constraint number_of_series check (number = series || '-' || year || '-' || lpad(sequence::text, greatest(6, length(sequence::text)), '0')),
  constraint credit_note_names_document check (kind <> 'credit_note' or corrects is not null),
  constraint year_of_issue check (year = extract(year from issued_at at time zone 'UTC'))
);
create index document_by_account on document (account_id, issued_at, number);
create index document_by_time on document (issued_at, number);
create index document_by_corrected on document (corrects) where corrects is not null;

create function document_takes_next_number() returns trigger language plpgsql as $$
begin
  insert into document_number as n (series, year, last) values (new.series, new.year, 1)
    on conflict (series, year) do update set last = n.last + 1
    returning last into new.sequence;
  new.number := new.series || '-' || new.year || '-' || lpad(new.sequence::text, greatest(6, length(new.sequence::text)), '0');
  return new;
end $$;
create trigger document_takes_next_number before insert on document
  for each row execute function document_takes_next_number();
create trigger document_is_append_only before update or delete on document for each row execute function refuse_change();
create trigger document_is_never_emptied before truncate on document for each statement execute function refuse_change();

-- A number only grows, by one, and with its document.
create function document_number_only_grows() returns trigger language plpgsql as $$
begin
  if tg_op <> 'UPDATE' or new.series <> old.series or new.year <> old.year or new.last <> old.last + 1 then
    raise exception 'numbers of documents only grow by one' using errcode = 'restrict_violation';
  end if;
  return new;
end $$;
create trigger document_number_only_grows before update or delete on document_number
  for each row execute function document_number_only_grows();

-- The file of a document, written once from its data.
create table document_pdf (
  number     text primary key references document,
  pdf        bytea not null,
  sha256     bytea not null check (length(sha256) = 32),
  written_at timestamptz(3) not null
);
create trigger document_pdf_is_append_only before update or delete on document_pdf for each row execute function refuse_change();
create trigger document_pdf_is_never_emptied before truncate on document_pdf for each statement execute function refuse_change();

-- Files that are to be written.
create table document_writing (
  id          text primary key references document,
  due_at      timestamptz(3) not null,
  lease_token text,
  lease_until timestamptz(3),
  attempts    integer not null default 0
);
create index document_writing_due on document_writing (due_at);
create function document_is_to_be_written() returns trigger language plpgsql as $$
begin
  insert into document_writing (id, due_at) values (new.number, new.issued_at);
  return null;
end $$;
create trigger document_is_to_be_written after insert on document
  for each row execute function document_is_to_be_written();
