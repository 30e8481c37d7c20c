-- People sign in as themselves: with a code by email, at an identity provider or with a passkey. A session still acts with
-- one key, so authorization, limits and the ledger do not know about people.

alter table person
  -- When the person proved that the address is theirs, with a code or through a provider that verified it. null: never;
  -- only others have entered it.
  add column email_verified_at timestamptz(3),
  -- Since when their keys and sessions in every account are refused. null: they are welcome.
  add column disabled_at timestamptz(3);

alter table member
  -- When the person agreed to belong to the account. null: others added them. Keys that they were given work, but signing
  -- in as the person does not lead here.
  add column accepted_at timestamptz(3);

alter table api_key
  -- `key`: created with its secret, by a person or an operator. `device`: created by `berth login`. `person`: what a member's
  -- sessions act with; nobody has its secret, and no list shows it.
  add column kind text not null default 'key' check (kind in ('key', 'device', 'person'));
create unique index api_key_of_sessions on api_key (account_id, person_id) where kind = 'person' and revoked_at is null;

-- A way to sign in that an operator, or the owner of an account for that account, has set up.
create table identity_provider (
  -- It is a part of the callback URL, which the provider knows.
  id                   text primary key check (id ~ '^[a-z][a-z0-9-]{0,39}$'),
  -- null: everybody may use it.
  account_id           text references account,
  kind                 text not null check (kind in ('oidc', 'github')),
  name                 text not null check (length(name) between 1 and 100),
  issuer               text not null,
  client_id            text not null,
  -- Sealed by the vault. null: a public client.
  client_secret_sealed text,
  -- The email domains whose addresses this provider decides: such an identity is linked to a known person at once.
  domains              text[] not null default '{}' check (cardinality(domains) <= 20),
  -- The domain that identities must have, as Google's `hd` claim states it. null: any.
  required_domain      text,
  -- The last sign-in or test that succeeded. null: none did.
  succeeded_at         timestamptz(3),
  -- The last one that failed at the provider, and why. null: none since the last success.
  failed_at            timestamptz(3),
  last_error           text check (length(last_error) <= 500),
  disabled_at          timestamptz(3),
  created_at           timestamptz(3) not null
);
create index identity_provider_by_account on identity_provider (account_id);

-- Who a person is at a provider. It is the subject that counts; the address may change.
create table identity (
  id           text primary key,
  person_id    text not null references person,
  provider_id  text not null references identity_provider on delete cascade,
  issuer       text not null,
  subject      text not null check (length(subject) between 1 and 255),
  -- As the provider last stated it. null: it did not.
  email        text check (length(email) <= 255),
  created_at   timestamptz(3) not null,
  last_used_at timestamptz(3) not null,
  unique (issuer, subject)
);
create index identity_by_person on identity (person_id);
create index identity_by_provider on identity (provider_id);

alter table account
  -- Whether members must show a second factor in the console.
  add column requires_factor boolean not null default false,
  -- Members must sign in at this provider. null: they may sign in in any way.
  add column sso_provider_id text references identity_provider;

alter table console_session
  alter column api_key_id drop not null,
  -- The name of the session in lists; it opens nothing.
  add column id          text not null default 'ses_' || replace(gen_random_uuid()::text, '-', ''),
  -- null: somebody signed in with a key.
  add column person_id   text references person on delete cascade,
  add column method      text not null default 'key' check (method in ('key', 'code', 'provider', 'passkey')),
  -- The provider of the last sign-in, for method `provider`.
  add column provider_id text references identity_provider on delete cascade,
  -- The last time the person proved who they are. null: when the session began.
  add column auth_at     timestamptz(3),
  -- The last time they showed a second factor. null: never.
  add column factor_at   timestamptz(3),
  -- Written at most once in some minutes. null: not since the sign-in.
  add column seen_at     timestamptz(3),
  add column address     text,
  add column browser     text,
  -- The cookie has the prefix `__Host-`, which no other host can set. Such a session is not accepted from another cookie.
  add column is_host_cookie boolean not null default false,
  -- A person without an account has no key.
  add constraint acts_for_somebody check (api_key_id is not null or person_id is not null);
create unique index console_session_by_id on console_session (id);
create index console_session_by_person on console_session (person_id, created_at);

-- A sign-in that has begun and will end with an answer from elsewhere: from a provider, or from a passkey.
create table sign_in (
  -- The hash of what the answer repeats: the `state` of OAuth, or the challenge of a passkey.
  state_hash  bytea primary key check (length(state_hash) = 32),
  -- The hash of the cookie of the browser that began it.
  flow_hash   bytea not null check (length(flow_hash) = 32),
  purpose     text not null check (purpose in ('sign-in', 'step-up', 'connect', 'test', 'passkey', 'add-passkey')),
  -- null: a passkey.
  provider_id text references identity_provider on delete cascade,
  -- The session that it renews or adds to. null: none yet.
  session_id  text,
  -- The nonce and the PKCE verifier, sealed by the vault. null: a passkey has none.
  sealed      text,
  -- The local path to open afterwards.
  return_to   text not null default '/' check (length(return_to) <= 2048),
  created_at  timestamptz(3) not null,
  expires_at  timestamptz(3) not null
);
create index sign_in_by_end on sign_in (expires_at);

-- Codes that were sent by email. One row is one code; a newer one ends those before it.
create table email_code (
  id             text primary key,
  address        text not null check (length(address) between 3 and 255),
  -- The hash of the cookie of the browser that asked for it; the code is typed there.
  flow_hash      bytea not null check (length(flow_hash) = 32),
  -- The hash of the code with the id.
  code_hash      bytea not null check (length(code_hash) = 32),
  purpose        text not null check (purpose in ('sign-in', 'step-up')),
  -- An identity at a provider that did not verify the address: with the right code it belongs to the person. Sealed.
  identity_sealed text,
  wrong_tries    smallint not null default 0,
  created_at     timestamptz(3) not null,
  expires_at     timestamptz(3) not null,
  -- It was used, replaced, or tried too often. null: it is valid until it expires.
  ended_at       timestamptz(3)
);
create index email_code_by_address on email_code (address, created_at);
create index email_code_by_age on email_code (created_at);

create table passkey (
  id            text primary key,
  person_id     text not null references person,
  -- As browsers name it, in base64url.
  credential_id text not null unique check (length(credential_id) <= 1400),
  public_key    bytea not null,
  counter       bigint not null default 0 check (counter >= 0),
  transports    text[] not null default '{}',
  name          text not null check (length(name) between 1 and 100),
  -- Whether it is also on other devices of the person.
  is_synced     boolean not null,
  created_at    timestamptz(3) not null,
  last_used_at  timestamptz(3)
);
create index passkey_by_person on passkey (person_id);

-- Codes on paper that replace a lost second factor, each once.
create table recovery_code (
  person_id  text not null references person,
  code_hash  bytea not null check (length(code_hash) = 32),
  created_at timestamptz(3) not null,
  used_at    timestamptz(3),
  primary key (person_id, code_hash)
);

-- Someone is asked to become a member, or by an operator to open an account.
create table invitation (
  -- It is in the link. Sending an invitation again replaces the row, so the old link ends.
  id         text primary key,
  -- null: to open an account of their own.
  account_id text references account,
  email      text not null check (length(email) between 3 and 255 and email = lower(email)),
  role       text not null check (role in ('owner', 'member', 'viewer')),
  -- Who sent it, and must still be an owner when it is accepted.
  sender_id  text not null references person,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  -- It was accepted, declined, revoked or replaced. null: it is open.
  ended_at   timestamptz(3),
  outcome    text check (outcome in ('accepted', 'declined', 'revoked', 'replaced')),
  constraint outcome_of_the_end check ((ended_at is null) = (outcome is null))
);
create unique index invitation_open on invitation (coalesce(account_id, ''), email) where ended_at is null;
create index invitation_by_email on invitation (email) where ended_at is null;
create index invitation_by_account on invitation (account_id, created_at);
create index invitation_by_sender on invitation (sender_id);

-- `berth login` on a device (RFC 8628).
create table device_login (
  device_code_hash bytea primary key check (length(device_code_hash) = 32),
  user_code_hash   bytea not null unique check (length(user_code_hash) = 32),
  -- What the device says about itself, and the address that it asked from.
  host_name        text not null check (length(host_name) <= 255),
  address          text not null,
  created_at       timestamptz(3) not null,
  expires_at       timestamptz(3) not null,
  polled_at        timestamptz(3),
  interval_s       integer not null check (interval_s between 1 and 600),
  -- null: nobody has decided.
  decision         text check (decision in ('approved', 'denied')),
  -- The key, sealed by the vault until the device fetches it. null: not approved, or fetched.
  key_sealed       text,
  api_key_id       text references api_key
);
create index device_login_by_end on device_login (expires_at);

-- The operator's terms; the newest version counts.
create table terms (
  version    integer primary key check (version > 0),
  body       text not null check (length(body) between 1 and 100000),
  created_at timestamptz(3) not null
);
create table terms_acceptance (
  person_id   text not null references person,
  version     integer not null references terms,
  accepted_at timestamptz(3) not null,
  address     text not null,
  primary key (person_id, version)
);

-- A message is about notifications, or has a template and goes to an address that may belong to nobody here.
alter table mail
  alter column account_id drop not null,
  alter column person_id drop not null,
  alter column kind drop not null,
  alter column notification_ids drop not null,
  -- The address of a message with a template.
  add column to_address  text check (length(to_address) between 3 and 255),
  add column template    text,
  -- What the template shows, sealed by the vault, since it may be a code.
  add column data_sealed text,
  drop constraint mail_state_check,
  -- `withheld`: not sent, because the address may not sign in. It is written so that the answer takes as long as any other.
  add constraint mail_state_check check (state in ('pending', 'sent', 'failed', 'withheld')),
  add constraint mail_about_something check (
    (template is null and account_id is not null and person_id is not null and kind is not null and notification_ids is not null)
    or (template is not null and to_address is not null and data_sealed is not null)
  );
create index mail_by_address on mail (to_address, created_at) where to_address is not null;
