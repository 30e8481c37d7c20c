/** Reasons about providers at which people sign in. The sign-in page gets them as `?error=REASON&provider=ID`. */
import { conflict, forbidden, invalid, notFound, unavailable } from './reason-entry.ts'

export const ssoReasons = {
  sso_provider_not_found: notFound('There is no such sign-in provider.'),
  sso_provider_exists: invalid(
    ({ id }: { readonly id: string }) => `There is a sign-in provider ${id} already.`,
    'Choose another id, or change that one.',
  ),
  sso_provider_disabled: forbidden('This sign-in provider is disabled.', 'Sign in another way.'),
  sso_bad_issuer: invalid(
    ({ problem }: { readonly problem: string }) => `This issuer cannot be used: ${problem}.`,
    'Copy the issuer from the provider. Its settings are at <issuer>/.well-known/openid-configuration.',
  ),
  sso_not_tried: conflict(
    'No owner of this account has signed in through this provider with its present settings.',
    'Sign in through it once, or connect it on the page Security, then require it.',
  ),
  sso_is_required: conflict(
    'Members must sign in at this provider, so its issuer and client cannot change.',
    'Stop requiring it first.',
  ),
  sso_provider_down: unavailable(
    ({ provider }: { readonly provider: string }) => `${provider} does not answer.`,
    'Sign in with a code by email, a passkey or a key, or try again later.',
  ),
  sso_rejected: forbidden(
    ({ provider }: { readonly provider: string }) => `The answer of ${provider} could not be verified.`,
    'Try again. If it happens again, tell the operator.',
  ),
  sso_denied: forbidden(
    ({ provider }: { readonly provider: string }) => `${provider} did not sign you in.`,
    'Try again, or sign in another way.',
  ),
  sso_ended: forbidden(
    'This sign-in has expired, was used already or began in another browser.',
    'Begin again on the sign-in page.',
  ),
  sso_not_connected: forbidden(
    ({ provider }: { readonly provider: string }) =>
      `Somebody has signed in with this address before, and ${provider} is not connected.`,
    'Sign in the way you did before, then connect it on the page Security.',
  ),
  sso_taken: conflict(
    ({ provider }: { readonly provider: string }) => `You are somebody else at ${provider}, who is connected already.`,
    'Sign out there, and choose another person.',
  ),
  sso_no_address: forbidden(
    ({ provider }: { readonly provider: string }) => `${provider} did not state a verified email address.`,
    'Add one there, or sign in another way.',
  ),
  sso_other_domain: forbidden(
    ({ domain }: { readonly domain: string }) => `Only people of ${domain} may sign in this way.`,
    'Choose your account of that organization.',
  ),
  sso_other_person: forbidden(
    ({ provider }: { readonly provider: string }) => `You are another person at ${provider} than in this session.`,
    'Confirm as the same person.',
  ),
  sso_cannot_confirm: forbidden(
    ({ provider }: { readonly provider: string }) => `${provider} cannot confirm that it is you.`,
    'Use a code by email or a passkey.',
  ),
  sso_other_account: forbidden(
    'You signed in at the provider of an account, which opens that account only.',
    'Sign out, and sign in another way.',
  ),
  identity_not_found: notFound('You are not connected to such a provider.'),
  last_way_to_sign_in: conflict('You could not sign in any more.', 'Add a passkey or another provider first.'),
} as const
