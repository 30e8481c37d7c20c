/** Reasons about access: keys, sessions, scopes, rate limits, streams. */
import { formatInstant, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { conflict, forbidden, invalid, notFound, rateLimited, unauthenticated, unavailable } from './reason-entry.ts'
import { missingScopeReason } from './missing-scope.ts'

export const accessReasons = {
  missing_key: unauthenticated(
    'This operation needs an API key.',
    'Send it in the header "Authorization: Bearer <API key>".',
  ),
  not_bearer: unauthenticated('The Authorization header must have the form "Bearer <API key>".'),
  malformed_key: unauthenticated(
    'This is not an API key.',
    'A key has the form bk_<id>_<secret>. Send the complete key.',
  ),
  mistyped_key: unauthenticated('The checksum of this API key does not match.', 'Check the key for typos.'),
  invalid_key: unauthenticated('This API key does not exist or was revoked.', 'Use another key, or create a new one.'),
  expired_key: unauthenticated(
    ({ expiredAt }: { readonly expiredAt: Instant }) => `This API key expired at ${formatInstant(expiredAt)}.`,
    'Use another key, or create a new one.',
  ),
  session_ended: unauthenticated('You have been signed out.', 'Sign in again.'),
  person_disabled: forbidden('Your access to this server was disabled.', 'Contact the operator.'),
  person_session_required: forbidden(
    'Only a person who is signed in to the console can do this.',
    'Sign in to the console with your email address, a passkey or your organization.',
  ),
  no_account: forbidden('You do not belong to an account yet.', 'Accept an invitation, or ask an owner for one.'),
  factor_required: forbidden(
    'This account requires a second factor.',
    'Confirm with your passkey or a recovery code, or add a passkey on the page Security.',
  ),
  terms_not_accepted: forbidden(
    'New orders need the newest terms of the operator, which no owner of this account has accepted.',
    'An owner accepts them in the console, on the page Terms. What runs goes on.',
  ),
  terms_outdated: conflict('These are not the newest terms.', 'Read and accept the newest version.'),
  passkey_required: forbidden(
    'This needs a session that showed a passkey or a recovery code.',
    'Confirm with your passkey, then try again.',
  ),
  passkey_refused: forbidden('This passkey was not accepted.', 'Try again, or sign in in another way.'),
  passkey_unknown: forbidden(
    'Nobody here has this passkey.',
    'Use another one, or sign in in another way and add it on the page Security.',
  ),
  passkey_expired: invalid('This took too long, or was begun in another browser.', 'Try again.'),
  passkey_exists: conflict('This passkey was added before.'),
  passkey_not_found: notFound('You have no such passkey.'),
  no_passkey: conflict('Recovery codes stand for passkeys, and you have none.', 'Add a passkey first.'),
  wrong_recovery_code: forbidden(
    'This recovery code is wrong, or was used.',
    'Try another one. If you have none, an operator can remove your passkeys.',
  ),
  sso_required: forbidden(
    ({ provider }: { readonly provider: string }) => `Members of this account must sign in with ${provider}.`,
    'Sign out, and sign in that way.',
  ),
  recent_sign_in_required: forbidden(
    'This needs a sign-in of the last 15 minutes.',
    'Confirm that it is you, then try again.',
  ),
  invitation_not_found: notFound(
    'There is no open invitation with this id for your address.',
    'Sign in with the address that was invited, or ask for a new invitation.',
  ),
  invitation_sender_left: conflict(
    'Who sent this invitation may not invite people to the account any more.',
    'Ask an owner of the account for a new invitation.',
  ),
  person_not_found: notFound('Person not found.'),
  cannot_disable_self: invalid('You cannot disable yourself.', 'Ask another operator.'),
  session_not_found: notFound('You have no such session.'),
  people_not_configured: invalid(
    'This server has no public URL, so people cannot sign in as themselves.',
    'Set BERTH_PUBLIC_URL, or sign in with an API key.',
  ),
  sign_up_closed: forbidden(
    'Nobody with this address may sign in here.',
    'Ask an account owner or the operator for an invitation.',
  ),
  too_many_accounts: rateLimited(
    `From one network, at most ${limits.accountsPerHour} accounts per hour and ${limits.accountsPerDay} per day can be opened.`,
    'Try again later, or ask the operator for an invitation.',
  ),
  too_many_codes: rateLimited(
    `An email address gets at most ${limits.emailCodesPerHour} codes per hour.`,
    'Use the last code, or try again later.',
  ),
  too_many_codes_from_network: rateLimited(
    `From one network, at most ${limits.emailCodesPerHourAndNetwork} codes per hour can be requested.`,
    'Try again later, or sign in in another way.',
  ),
  wrong_code: invalid(
    ({ left: tries }: { readonly left: number }) =>
      `This is not the code. ${tries === 1 ? '1 try is' : `${tries} tries are`} left.`,
  ),
  code_ended: invalid(
    'The code has expired, was replaced, or was typed wrong too often.',
    'Ask for a new code, in this browser.',
  ),
  authorization_pending: invalid(
    'Nobody has approved this login yet.',
    'Ask again after the interval, until the code expires.',
  ),
  slow_down: invalid('This device asks too often.', 'Wait five seconds longer between requests from now on.'),
  expired_token: invalid('The code of this device has expired, or was used.', 'Log in again.'),
  access_denied: invalid('The login was refused.', 'Log in again if that was a mistake.'),
  device_code_not_found: notFound(
    'No device shows this code now.',
    'Check the code. Codes expire after ten minutes; berth login shows a new one.',
  ),
  too_many_device_codes: rateLimited(
    `You typed ${limits.deviceCodeTries} wrong codes of devices.`,
    'Wait ten minutes, then log in on the device again.',
  ),
  too_many_device_logins: rateLimited(
    `From one network, at most ${limits.deviceLoginsPerHour} logins of devices per hour can begin.`,
    'Try again later, or use an API key.',
  ),
  oauth_client_invalid: invalid(
    ({ problem }: { readonly problem: string }) => `This agent cannot sign in here. ${problem}`,
    'Tell its authors, or give it an API key.',
  ),
  oauth_client_unreachable: invalid(
    ({ host, problem }: { readonly host: string; readonly problem: string }) =>
      `The document of this agent could not be read at ${host}: ${problem}.`,
    'Try again later, or give the agent an API key.',
  ),
  oauth_redirect_invalid: invalid(
    'The document of this agent does not list the address that it wants to get the code at.',
    'Do not go on if somebody sent you the link to this page.',
  ),
  oauth_code_invalid: invalid('This code is wrong, has expired, or was used.', 'Sign in again.'),
  device_not_found: notFound('You have no such device.'),
  not_a_device: invalid('This API key was not created by a login of a device.', 'Revoke it with berth keys rm.'),
  account_suspended: forbidden('This account is suspended.', 'Contact the operator.'),
  missing_scope: missingScopeReason,
  cross_site: forbidden('A console session can only be used from the console itself.'),
  origin_not_allowed: forbidden(
    ({ origin }: { readonly origin: string }) => `This key does not allow requests of web pages of ${origin}.`,
    'Create a key that allows this origin, or call the API from a server.',
  ),
  foreign_origin: forbidden('Other websites cannot open a terminal.'),
  link_used: forbidden('This sign-in link was already used or has expired.', 'Restart the server to print a new link.'),
  rate_limited: rateLimited(
    ({ limit, unit = 'requests' }: { readonly limit: number; readonly unit?: string }) =>
      `Rate limit reached: ${limit} ${unit} per minute.`,
    'Try again in a moment.',
  ),
  too_many_streams: rateLimited(
    ({ limit, streams }: { readonly limit: number; readonly streams: 'event' | 'log' }) =>
      `The account already has ${limit} open ${streams} streams.`,
    'Close one of them first.',
  ),
  too_many_terminals: rateLimited(
    ({ limit }: { readonly limit: number }) => `The account already has ${limit} open terminals.`,
    'Close one of them, or try again later.',
  ),
  terminal_failed: unavailable('The terminal could not be opened.', 'Try again.'),
  bad_idempotency_key: invalid(
    ({ maxChars }: { readonly maxChars: number }) => `Idempotency-Key must have 1 to ${maxChars} printable characters.`,
  ),
  idempotency_key_reused: conflict(
    'This Idempotency-Key was already used for a different request.',
    'Check whether the first request succeeded, then use a new key.',
  ),
  bad_cursor: invalid('The cursor does not belong to this list.', 'Use `nextCursor` from the previous page.'),
  bad_subject: invalid('`subject` must have the form kind:id, such as rental:17.'),
  events_not_settled: unavailable('The latest events are still being written.', 'Try again in a second.'),
  server_busy: unavailable(
    ({ account }: { readonly account: { readonly usedBytes: number; readonly limitBytes: number } | undefined }) =>
      account === undefined
        ? 'The server has no memory left for large request bodies.'
        : `Request bodies of this account already use ${account.usedBytes} of ${account.limitBytes} bytes.`,
    'Try again in a moment.',
  ),
  server_stopping: unavailable('The server is shutting down.', 'Try again in a moment.'),
  too_many_connections: unavailable('The server has too many open connections.', 'Try again in a moment.'),
  database_unavailable: unavailable('The database is not responding right now.', 'Try again in a moment.'),
  outcome_unknown: unavailable(
    'The database did not confirm this change in time, so it may or may not have taken effect.',
    'Check before you retry, or retry with the same Idempotency-Key.',
  ),
  unknown_path: {
    ...notFound(
      ({ route }: { readonly route: string }) => `No such endpoint: ${route}.`,
      'See /docs for all endpoints.',
    ),
    status: 404,
  },
  bad_request: invalid('The request could not be read.'),
  bad_json: invalid('The body is not valid JSON.'),
  not_json: {
    ...invalid('The body is not JSON.', 'Send JSON with the header "Content-Type: application/json".'),
    status: 415,
  },
  not_multipart: {
    ...invalid('The body is not a form.', 'Send it as multipart/form-data, with the file in the field "file".'),
    status: 415,
  },
  bad_multipart: invalid('The form could not be read.', 'Send one file, in the field "file", and at most 20 fields.'),
  body_too_large: {
    ...invalid(({ maxBytes }: { readonly maxBytes?: number }) =>
      maxBytes === undefined ? 'The body is too large.' : `The body is longer than ${maxBytes} bytes.`,
    ),
    status: 413,
  },
  internal_error: {
    ...unavailable('Something went wrong on our side.', 'Contact the operator and include the request ID.'),
    status: 500,
  },
} as const
