/**
 * Agents that sign in with OAuth: what the page that a client opens asks for. The client itself speaks OAuth, at addresses
 * beside `/mcp`.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint, type Scope } from './endpoint.ts'

/** The scopes that an agent may have. Keys, members and prices stay with people. */
export const agentScopes = ['inference', 'compute:read', 'compute:write', 'billing:read'] as const satisfies Scope[]

const url = z.string().min(1).max(2_000)
const request = z.strictObject({
  clientId: url.max(500).describe('The URL of the document about the client'),
  redirectUri: url.describe('Where the browser takes the answer'),
  codeChallenge: z
    .string()
    .regex(/^[\w-]{43}$/, 'Must be the SHA-256 of the verifier, in base64url')
    .describe("The SHA-256 of the client's secret, in base64url (PKCE, S256)"),
  state: z.string().max(2_000).optional().describe('Returned to the client as it is'),
})

const answer = z
  .object({ redirectUrl: z.string().describe('Where the browser takes the answer') })
  .meta({ id: 'OauthAnswer' })

const person = { family: 'v2', tag: 'Account', access: 'person' } as const

export const oauthEndpoints = {
  findOauthClient: endpoint({
    ...person,
    method: 'POST',
    path: '/v2/oauth/find',
    summary: 'Show the agent that asks to sign in',
    description: 'Reads the document about the agent, and checks that it lists the address for the answer.',
    errors: [400, 401, 403, 500],
    body: request.meta({ id: 'FindOauthClient' }),
    response: z
      .object({
        clientId: z.string(),
        name: z.string().describe('As its document says'),
        host: z.string().describe('Where its document is'),
        redirectUri: z.string(),
      })
      .meta({ id: 'OauthClient' }),
  }),
  approveOauthClient: endpoint({
    ...person,
    method: 'POST',
    path: '/v2/oauth/approve',
    summary: 'Sign the agent in with an API key of yours',
    description: 'The key has no scope that you lack in the account, and ends.',
    errors: [400, 401, 403, 404, 500],
    body: request
      .extend({
        accountId: z.string().min(1).max(100),
        scopes: z.array(z.enum(agentScopes)).min(1).max(agentScopes.length),
        days: z.int().min(1).max(limits.deviceKeyDays).default(limits.deviceKeyDaysDefault),
      })
      .meta({ id: 'ApproveOauthClient' }),
    response: answer,
  }),
  denyOauthClient: endpoint({
    ...person,
    method: 'POST',
    path: '/v2/oauth/deny',
    summary: 'Refuse the agent',
    errors: [400, 401, 403, 500],
    body: request.meta({ id: 'DenyOauthClient' }),
    response: answer,
  }),
}
