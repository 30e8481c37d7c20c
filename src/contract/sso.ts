/** Providers at which people sign in: the operator's, the one of an account, and who a person is there (v2). */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { message, textIdParams, timestamp } from './shared.ts'

const ssoKinds = ['oidc', 'github'] as const
const ssoChecks = ['settings', 'reachable', 'keys', 'security'] as const

const providerId = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,39}$/, 'Must start with a letter and have at most 40 lowercase letters, digits and hyphens')
  .refine((id) => id !== 'code' && id !== 'passkey', 'Must be another name: this one is a path of the server')

const domain = z
  .string()
  .trim()
  .toLowerCase()
  .max(253)
  .regex(/^([a-z0-9-]+\.)+[a-z0-9-]{2,}$/, 'Must be a domain such as example.com')

const settings = {
  name: z.string().trim().min(1).max(100).describe('The button of the sign-in page has it'),
  issuer: z
    .url({ protocol: /^https?$/ })
    .max(2_048)
    .describe('The issuer as the provider writes it; for `github` the address of GitHub (default: https://github.com)'),
  clientId: z.string().trim().min(1).max(500).describe('Of the application that you registered at the provider'),
  clientSecret: z
    .string()
    .min(1)
    .max(2_000)
    .describe('Its secret. Stored encrypted, and never returned; leave it out for a public client'),
  domains: z
    .array(domain)
    .max(20)
    .describe('Email domains that the provider decides: it signs known people with such an address in at once'),
  requiredDomain: domain
    .nullable()
    .describe('Only people of this domain may sign in: the claim `hd` of Google, else the domain of the address'),
}

const ssoProviderRecord = z
  .object({
    id: z.string(),
    accountId: z.string().nullable().describe('The account whose members use it; null: everybody may'),
    kind: z.enum(ssoKinds),
    name: z.string(),
    issuer: z.string(),
    clientId: z.string(),
    hasSecret: z.boolean(),
    domains: z.array(z.string()),
    requiredDomain: z.string().nullable(),
    callbackUrl: z
      .string()
      .nullable()
      .describe('Register it at the provider as the redirect URI; null: the server has no public URL'),
    signInUrl: z.string().nullable().describe('Opens the sign-in at this provider'),
    testUrl: z
      .string()
      .nullable()
      .describe('Tries a sign-in in a browser that is signed in, without changing anything'),
    isDown: z.boolean().describe('It did not answer in the last minutes'),
    succeededAt: timestamp
      .nullable()
      .describe('The last sign-in or test that succeeded; null: none with these settings'),
    failedAt: timestamp.nullable().describe('The last one that failed at the provider; null: none since'),
    lastError: z.string().nullable(),
    disabledAt: timestamp.nullable(),
    people: z.int().describe('How many people sign in with it'),
    createdAt: timestamp,
  })
  .meta({ id: 'SsoProvider' })

const testResult = z
  .object({
    ok: z.boolean(),
    checks: z.array(
      z.object({
        check: z.enum(ssoChecks),
        result: z.enum(['passed', 'failed', 'not_tried']),
        detail: z.string(),
      }),
    ),
    testUrl: z
      .string()
      .nullable()
      .describe('The rest needs a browser: open this while you are signed in to the console'),
  })
  .meta({ id: 'SsoTest' })

const accountSso = z
  .object({
    provider: ssoProviderRecord.nullable().describe('The provider of the account itself'),
    requiredProviderId: z
      .string()
      .nullable()
      .describe('Members must sign in at it to act in the account. Keys need nothing more. null: any way'),
    choices: z
      .array(
        z.object({
          id: z.string(),
          name: z.string(),
          canRequire: z.boolean().describe('Whether an owner has signed in through it, as requiring it needs'),
        }),
      )
      .describe('Providers that can be required: that of the account, and those of the operator'),
  })
  .meta({ id: 'AccountSso' })

const identityRecord = z
  .object({
    id: z.string(),
    providerId: z.string(),
    providerName: z.string(),
    kind: z.enum(ssoKinds),
    email: z.string().nullable().describe('As the provider last stated it'),
    createdAt: timestamp,
    lastUsedAt: timestamp,
  })
  .meta({ id: 'Identity' })

const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const
const account = { family: 'v2', tag: 'Account', access: ['keys'] } as const
const person = { family: 'v2', tag: 'Account', access: 'person' } as const

const newProvider = z.strictObject({
  kind: z.enum(ssoKinds),
  name: settings.name,
  issuer: settings.issuer.optional(),
  clientId: settings.clientId,
  clientSecret: settings.clientSecret.optional(),
  requiredDomain: settings.requiredDomain.optional(),
})
const hasIssuer = ({ kind, issuer }: { kind: string; issuer?: string | undefined }): boolean =>
  kind === 'github' || issuer !== undefined
const needsIssuer = { path: ['issuer'], error: 'Must be there for the kind oidc' }

export const ssoEndpoints = {
  listSsoProviders: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/sso',
    summary: 'List providers at which people sign in, those of accounts too',
    errors: [401, 403, 500],
    response: z.object({ providers: z.array(ssoProviderRecord) }),
  }),
  addSsoProvider: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/sso',
    summary: 'Add a provider at which everybody may sign in',
    description: 'Register its `callbackUrl` at the provider, then test it.',
    errors: [400, 401, 403, 500],
    body: newProvider
      .extend({
        id: providerId.describe('A part of the callback URL, such as `google`'),
        domains: settings.domains.optional(),
      })
      .refine(hasIssuer, needsIssuer)
      .meta({ id: 'AddSsoProvider' }),
    response: ssoProviderRecord,
    idempotent: true,
    needsRecentSignIn: true,
  }),
  changeSsoProvider: endpoint({
    ...operator,
    method: 'PATCH',
    path: '/v2/operator/sso/{id}',
    summary: 'Change a provider, or disable it',
    description:
      'While it is disabled, nobody signs in through it. Another issuer or client needs a new test, and another issuer ends the connections of people.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        name: settings.name.optional(),
        issuer: settings.issuer.optional(),
        clientId: settings.clientId.optional(),
        clientSecret: settings.clientSecret.nullable().optional(),
        domains: settings.domains.optional(),
        requiredDomain: settings.requiredDomain.optional(),
        disabled: z.boolean().optional(),
      })
      .refine((change) => Object.values(change).some((value) => value !== undefined), 'names a setting')
      .meta({ id: 'ChangeSsoProvider' }),
    response: ssoProviderRecord,
    needsRecentSignIn: true,
  }),
  testSsoProvider: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/sso/{id}/test',
    summary: 'Check what can be checked without a browser',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: testResult,
  }),
  removeSsoProvider: endpoint({
    ...operator,
    method: 'DELETE',
    path: '/v2/operator/sso/{id}',
    summary: 'Remove a provider',
    description:
      'Connections of people and sessions that began there end. Accounts that required it do not require it any more.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
    needsRecentSignIn: true,
  }),
  getAccountSso: endpoint({
    ...account,
    method: 'GET',
    path: '/v2/account/sso',
    summary: 'Show the provider of the account, and whether members must sign in at one',
    errors: [401, 403, 500],
    response: accountSso,
  }),
  setAccountSso: endpoint({
    ...account,
    method: 'PUT',
    path: '/v2/account/sso',
    summary: 'Set the provider of the account (owners only)',
    description:
      'People who sign in through it get a code by email first, and act in this account only. It must have a public address. Without `clientSecret` the stored one stays.',
    errors: [400, 401, 403, 500],
    body: newProvider.refine(hasIssuer, needsIssuer).meta({ id: 'SetAccountSso' }),
    response: accountSso,
    needsRecentSignIn: true,
  }),
  testAccountSso: endpoint({
    ...account,
    method: 'POST',
    path: '/v2/account/sso/test',
    summary: 'Check what can be checked of it without a browser (owners only)',
    errors: [400, 401, 403, 404, 500],
    response: testResult,
  }),
  requireAccountSso: endpoint({
    ...account,
    method: 'PUT',
    path: '/v2/account/sso/required',
    summary: 'Require members to sign in at a provider (owners only)',
    description:
      'An owner must have signed in through it before. It holds for sessions of the console at once; API keys keep working.',
    errors: [400, 401, 403, 404, 500],
    body: z
      .strictObject({ providerId: z.string().min(1).max(40).nullable().describe('null: members sign in in any way') })
      .meta({ id: 'RequireAccountSso' }),
    response: accountSso,
    needsRecentSignIn: true,
  }),
  removeAccountSso: endpoint({
    ...account,
    method: 'DELETE',
    path: '/v2/account/sso',
    summary: 'Remove the provider of the account, and stop requiring it (owners only)',
    errors: [400, 401, 403, 404, 500],
    response: message,
    needsRecentSignIn: true,
  }),
  listIdentities: endpoint({
    ...person,
    method: 'GET',
    path: '/v2/people/me/identities',
    summary: 'List the providers at which you sign in',
    errors: [401, 403, 500],
    response: z.object({
      identities: z.array(identityRecord),
      choices: z
        .array(z.object({ id: z.string(), name: z.string(), kind: z.enum(ssoKinds), connectUrl: z.string() }))
        .describe('Providers that you can connect: open `connectUrl` in this browser'),
    }),
  }),
  removeIdentity: endpoint({
    ...person,
    method: 'DELETE',
    path: '/v2/people/me/identities/{id}',
    summary: 'Stop signing in through a provider',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
    needsRecentSignIn: true,
  }),
}
