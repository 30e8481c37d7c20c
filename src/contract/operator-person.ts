/** People who sign in and the mail they got, for operators (v2). */
import { z } from 'zod'
import { roles } from './account.ts'
import { endpoint } from './endpoint.ts'
import { pageQuery, reasonText, searchText, textIdParams, timestamp } from './shared.ts'

const personRecord = z
  .object({
    id: z.string(),
    email: z.string(),
    name: z.string().nullable(),
    createdAt: timestamp,
    provedAt: timestamp.nullable().describe('When they proved the address; null: only others have entered it'),
    disabledAt: timestamp.nullable().describe('Since when their keys and sessions are refused'),
    seenAt: timestamp.nullable().describe('The last request of a session that has not ended'),
    accounts: z.array(
      z.object({
        accountId: z.string(),
        accountName: z.string(),
        role: z.enum(roles),
        state: z.enum(['invited', 'active']),
      }),
    ),
  })
  .meta({ id: 'Person' })

const mailStates = ['pending', 'sent', 'failed', 'withheld'] as const

const mailRecord = z
  .object({
    id: z.string(),
    to: z.string(),
    about: z.string().describe('Its template, or the kind of the notifications'),
    state: z.enum(mailStates).describe('`withheld`: not sent, because nobody may sign in with the address'),
    attempts: z.number(),
    error: z.string().nullable().describe('What the mail server said last'),
    createdAt: timestamp,
    endedAt: timestamp.nullable(),
  })
  .meta({ id: 'Mail' })

const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const

export const operatorPersonEndpoints = {
  listPeople: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/people',
    summary: 'List people, the newest first',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({ q: searchText.describe('Part of the address, name or id') }),
    response: z.object({ people: z.array(personRecord), nextCursor: z.string().nullable() }),
  }),
  changePerson: endpoint({
    ...operator,
    method: 'PATCH',
    path: '/v2/operator/people/{id}',
    summary: 'Disable a person, or enable them again',
    description:
      'Their keys in every account and their sessions stop on every server within a second. Machines keep running.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z.strictObject({ disabled: z.boolean(), reason: reasonText }).meta({ id: 'ChangePerson' }),
    response: personRecord,
    needsRecentSignIn: true,
  }),
  listMails: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/mails',
    summary: 'List e-mail of the last days: what was sent, failed or withheld',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({
      state: z.enum(mailStates).optional(),
      q: searchText.describe('Part of the address'),
    }),
    response: z.object({ mails: z.array(mailRecord), nextCursor: z.string().nullable() }),
  }),
}
