/** The operator's terms (v2). */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { timestamp } from './shared.ts'

const termsRecord = z
  .object({ version: z.number(), body: z.string().describe('Plain text'), createdAt: timestamp })
  .meta({ id: 'Terms' })

export const termsEndpoints = {
  getTerms: endpoint({
    method: 'GET',
    path: '/v2/terms',
    family: 'v2',
    tag: 'Account',
    access: 'public',
    summary: 'Show the newest terms of the operator',
    errors: [400, 500],
    response: z.object({ terms: termsRecord.nullable().describe('null: there are none') }),
  }),
  acceptTerms: endpoint({
    method: 'POST',
    path: '/v2/people/me/terms',
    family: 'v2',
    tag: 'Account',
    access: 'person',
    summary: 'Accept the newest terms',
    description: 'Orders of an account need an owner who has accepted them.',
    errors: [400, 401, 403, 500],
    body: z.strictObject({ version: z.int().min(1).max(2_147_483_647) }).meta({ id: 'AcceptTerms' }),
    response: z.object({ version: z.number() }),
  }),
  publishTerms: endpoint({
    method: 'POST',
    path: '/v2/operator/terms',
    family: 'v2',
    tag: 'Operator',
    access: ['operator'],
    summary: 'Publish a new version of the terms',
    description:
      'The text of the newest version again changes nothing. From then on, new orders of an account need an owner who has accepted it. Rentals, jobs and deployments that exist go on.',
    errors: [400, 401, 403, 500],
    body: z.strictObject({ body: z.string().trim().min(1).max(100_000) }).meta({ id: 'PublishTerms' }),
    response: termsRecord,
    needsRecentSignIn: true,
  }),
}
