/** The person who is signed in to the console: their accounts, invitations and sessions (v2). */
import { z } from 'zod'
import { roles } from './account.ts'
import { endpoint } from './endpoint.ts'
import { message, textIdParams, timestamp } from './shared.ts'

const sessionMethods = ['key', 'code', 'provider', 'passkey'] as const

const sessionRecord = z
  .object({
    id: z.string(),
    isCurrent: z.boolean().describe('Whether this request belongs to it'),
    method: z.enum(sessionMethods).describe('How the person last proved who they are'),
    providerId: z.string().nullable().describe('For the method `provider`'),
    address: z.string().nullable().describe('The IP address of the sign-in'),
    browser: z.string().nullable().describe('The `User-Agent` of the sign-in'),
    createdAt: timestamp,
    authenticatedAt: timestamp.describe('The last proof. Some operations need one of the last 15 minutes'),
    factorAt: timestamp.nullable().describe('When a second factor was last shown; null: never'),
    seenAt: timestamp.nullable().describe('The last request, to some minutes'),
    expiresAt: timestamp,
  })
  .meta({ id: 'PersonSession' })

const membershipRecord = z
  .object({
    accountId: z.string(),
    accountName: z.string(),
    role: z.enum(roles),
    isCurrent: z.boolean().describe('Whether the session acts in it'),
    suspended: z.boolean(),
    requiresFactor: z.boolean().describe('Whether the account requires a second factor'),
    providerId: z.string().nullable().describe('The provider at which its members must sign in; null: any way'),
  })
  .meta({ id: 'Membership' })

const offerRecord = z
  .object({
    id: z.string().describe('The id of an invitation, or of the account to which others added the person'),
    accountId: z.string().nullable().describe('null: to open an account of their own'),
    accountName: z.string().nullable(),
    role: z.enum(roles),
    sender: z.string().nullable().describe('Who sent it; null: an operator or owner added the person'),
    createdAt: timestamp,
    expiresAt: timestamp.nullable(),
  })
  .meta({ id: 'Offer' })

const person = { family: 'v2', tag: 'Account', access: 'person' } as const

export const personEndpoints = {
  getPerson: endpoint({
    ...person,
    method: 'GET',
    path: '/v2/people/me',
    summary: 'Show the person who is signed in: session, accounts and open invitations',
    errors: [401, 403, 500],
    response: z.object({
      id: z.string(),
      email: z.string(),
      name: z.string().nullable(),
      session: sessionRecord,
      accounts: z.array(membershipRecord),
      offers: z.array(offerRecord).describe('Accounts that the person may join or open'),
      terms: z
        .object({
          newest: z.number().nullable(),
          accepted: z.number().nullable(),
          acceptedAt: timestamp.nullable().describe('When the person accepted that version'),
        })
        .describe('Versions of the terms of the operator; null: none'),
    }),
  }),
  listSessions: endpoint({
    ...person,
    method: 'GET',
    path: '/v2/people/me/sessions',
    summary: 'List your sessions of the console',
    errors: [401, 403, 500],
    response: z.object({ sessions: z.array(sessionRecord) }),
  }),
  endSession: endpoint({
    ...person,
    method: 'DELETE',
    path: '/v2/people/me/sessions/{id}',
    summary: 'End one of your sessions; takes effect on every server within a second',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
  endOtherSessions: endpoint({
    ...person,
    method: 'DELETE',
    path: '/v2/people/me/sessions',
    summary: 'End all your other sessions',
    errors: [401, 403, 500],
    response: z.object({ ended: z.number().describe('How many') }),
  }),
  switchAccount: endpoint({
    ...person,
    method: 'POST',
    path: '/v2/people/me/account',
    summary: 'Choose the account in which the session acts',
    errors: [400, 401, 403, 404, 500],
    body: z.strictObject({ accountId: z.string().min(1).max(100) }).meta({ id: 'SwitchAccount' }),
    response: membershipRecord,
  }),
  acceptOffer: endpoint({
    ...person,
    method: 'POST',
    path: '/v2/people/me/offers/{id}/accept',
    summary: 'Accept an invitation, or a membership that others wrote; the session acts in its account from then on',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: membershipRecord,
  }),
  declineOffer: endpoint({
    ...person,
    method: 'POST',
    path: '/v2/people/me/offers/{id}/decline',
    summary: 'Decline it',
    description:
      'A membership that others wrote ends with it, and so do the keys that act in your name in that account.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
