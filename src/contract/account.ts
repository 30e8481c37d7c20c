/** The account, its members, API keys and SSH keys (v2). */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { keyClasses } from './key-class.ts'
import { MAX_ORIGINS, originText } from './origin.ts'
import { endpoint, scopes } from './endpoint.ts'
import { message, nonNegativeUsd, textIdParams, time, timestamp, usdAmount } from './shared.ts'

const nameText = z.string().trim().min(1).max(limits.nameChars)
export const roles = ['owner', 'member', 'viewer'] as const
const role = z.enum(roles)
export type Role = z.infer<typeof role>

export const accountRecord = z
  .object({
    id: z.string(),
    name: z.string(),
    createdAt: timestamp,
    suspended: z.boolean(),
    supplier: z.boolean(),
    keepsBodies: z.boolean().describe('Whether the request log stores the bodies of inference requests and answers'),
    storesResponses: z.boolean().describe('Whether responses (`/v1/responses`) are stored unless `store` is false'),
    requiresFactor: z.boolean().describe('Whether members must show a passkey in the console'),
  })
  .meta({ id: 'Account' })

export const memberRecord = z
  .object({
    id: z.string(),
    email: z.string(),
    name: z.string().nullable(),
    picture: z.string().nullable(),
    role,
    state: z.enum(['invited', 'active']).describe('`invited`: has not accepted. Keys that others gave them work'),
    hasPasskey: z
      .boolean()
      .describe('Whether they could show one where the account requires it; false until they accept the invitation'),
    createdAt: timestamp,
  })
  .meta({ id: 'Member' })

const apiKeyRecord = z
  .object({
    publicId: z.string(),
    memberId: z.string().describe('The member it acts for'),
    kind: z.enum(['key', 'device']).describe('`device`: created by berth login'),
    name: z.string(),
    last4: z.string(),
    scopes: z.array(z.enum(scopes)),
    allowedModels: z.array(z.string()).nullable(),
    allowedOrigins: z.array(z.string()).describe('Whose web pages may call with it; `*`: any'),
    monthlyLimitUsd: usdAmount.nullable(),
    totalLimitUsd: usdAmount.nullable(),
    class: z.enum(keyClasses).describe('batch: its inference requests wait while others do'),
    requestsPerMinute: z.number().nullable(),
    tokensPerMinute: z.number().nullable(),
    createdAt: timestamp,
    expiresAt: timestamp.nullable(),
    lastUsedAt: timestamp.nullable(),
    revokedAt: timestamp.nullable(),
    graceEndsAt: timestamp
      .nullable()
      .describe('Until when the secret before the last rotation works, or worked; null: it was never rotated'),
  })
  .meta({ id: 'ApiKey' })

const sshKeyRecord = z
  .object({
    id: z.string(),
    name: z.string(),
    publicKey: z.string(),
    fingerprint: z.string(),
    createdAt: timestamp,
  })
  .meta({ id: 'SshKey' })

const account = { family: 'v2', tag: 'Account' } as const

export const accountEndpoints = {
  getMe: endpoint({
    ...account,
    method: 'GET',
    path: '/v2/users/me',
    access: 'any-key',
    summary: 'Show the account and member of this key',
    errors: [401, 403, 500],
    response: z.object({
      id: z.string(),
      email: z.string(),
      name: z.string().nullable(),
      picture: z.string().nullable(),
      role,
      account: accountRecord,
      key: z.object({
        publicId: z.string(),
        kind: z.enum(['key', 'device', 'person']).describe('`device`: of berth login; `person`: of a console session'),
        name: z.string(),
        scopes: z.array(z.enum(scopes)),
        expiresAt: timestamp.nullable(),
      }),
      lastEventId: z.string().describe('The latest event of the account, or `0`. Follow events after it to miss none'),
    }),
  }),
  changeAccountSettings: endpoint({
    ...account,
    method: 'PATCH',
    path: '/v2/account/settings',
    access: ['keys'],
    summary: 'Change the settings of the account (owners only)',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        keepsBodies: z
          .boolean()
          .optional()
          .describe('If true, the request log stores the bodies of new inference requests and answers, encrypted'),
        storesResponses: z
          .boolean()
          .optional()
          .describe('If false, no new responses (`/v1/responses`) are stored, whatever `store` says'),
        requiresFactor: z
          .boolean()
          .optional()
          .describe('If true, sessions of members need a passkey. It needs a recent sign-in that showed one'),
      })
      .refine((settings) => Object.values(settings).some((value) => value !== undefined), 'names a setting')
      .meta({ id: 'ChangeAccountSettings' }),
    response: accountRecord,
  }),
  listMembers: endpoint({
    ...account,
    method: 'GET',
    path: '/v2/members',
    access: ['keys'],
    summary: 'List members',
    errors: [400, 401, 403, 500],
    response: z.object({ members: z.array(memberRecord) }),
  }),
  addMember: endpoint({
    ...account,
    method: 'POST',
    path: '/v2/members',
    access: ['keys'],
    summary: 'Add a member (owners only)',
    description:
      'Owners can create keys for them at once. Where people sign in, an invitation is mailed, which they accept.',
    errors: [400, 401, 403, 500],
    body: z.strictObject({ email: z.email().max(255), name: nameText.optional(), role }).meta({ id: 'AddMember' }),
    response: memberRecord,
    idempotent: true,
  }),
  changeMember: endpoint({
    ...account,
    method: 'PATCH',
    path: '/v2/members/{id}',
    access: ['keys'],
    summary: 'Change the role of a member (owners only)',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z.strictObject({ role }).meta({ id: 'ChangeMember' }),
    response: memberRecord,
  }),
  removeMember: endpoint({
    ...account,
    method: 'DELETE',
    path: '/v2/members/{id}',
    access: ['keys'],
    summary: 'Remove a member and revoke their keys (owners only)',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
  listApiKeys: endpoint({
    ...account,
    method: 'GET',
    path: '/v2/api-keys',
    access: ['keys'],
    summary: 'List API keys, including revoked ones',
    errors: [400, 401, 403, 500],
    response: z.object({ apiKeys: z.array(apiKeyRecord) }),
  }),
  createApiKey: endpoint({
    ...account,
    method: 'POST',
    path: '/v2/api-keys',
    access: ['keys'],
    summary: 'Create an API key',
    description: 'The key is shown only in this response. It cannot have a scope that the calling key lacks.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        name: nameText.meta({ examples: ['laptop', 'nightly training'] }),
        memberId: z
          .string()
          .min(1)
          .max(100)
          .optional()
          .meta({ title: 'Member', description: 'The member the key is for (owners only); default: yourself' }),
        scopes: z.array(z.enum(scopes)).min(1).max(scopes.length),
        expiresAt: time.optional().meta({ title: 'Expires', description: 'When it stops working; default: never' }),
        allowedModels: z.array(z.string().min(1).max(200)).min(1).max(100).optional(),
        allowedOrigins: z.array(originText).max(MAX_ORIGINS).optional().meta({
          title: 'Allowed origins',
          description: 'Whose web pages may call with it, such as https://app.example.com; * allows any; default: none',
        }),
        monthlyLimitUsd: nonNegativeUsd.optional().meta({ title: 'Monthly spending limit' }),
        totalLimitUsd: nonNegativeUsd.optional().meta({ title: 'Total spending limit' }),
        class: z.enum(keyClasses).optional().meta({
          title: 'Class',
          description: 'batch: its inference requests take slots that nobody else waits for; default: interactive',
        }),
        requestsPerMinute: z.int().min(1).max(1_000_000).optional().describe('Default: the limit of the server'),
        tokensPerMinute: z
          .int()
          .min(1)
          .max(1_000_000_000)
          .optional()
          .describe('For inference; default: the limit of the account'),
      })
      .meta({ id: 'CreateApiKey' }),
    response: apiKeyRecord.extend({ key: z.string().describe('`bk_…`, shown once') }).meta({ id: 'NewApiKey' }),
    idempotent: true,
  }),
  rotateApiKey: endpoint({
    ...account,
    method: 'POST',
    path: '/v2/api-keys/{id}/rotate',
    access: ['keys'],
    summary: 'Replace the secret of an API key; the old one stays valid for a while',
    description:
      'The key keeps its ID, scopes, limits and spending, and the new key is shown only in this response. A key can rotate itself; to rotate another one, the calling key needs the rights to create it. Console sessions that were opened with the key end.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        graceHours: z
          .int()
          .min(0)
          .max(limits.keyGraceHours)
          .default(limits.keyGraceHoursDefault)
          .describe('How long the old secret stays valid; 0 ends it at once'),
      })
      .meta({ id: 'RotateApiKey' }),
    response: apiKeyRecord.extend({ key: z.string().describe('`bk_…`, shown once') }).meta({ id: 'RotatedApiKey' }),
    idempotent: true,
  }),
  revokeApiKey: endpoint({
    ...account,
    method: 'DELETE',
    path: '/v2/api-keys/{id}',
    access: ['keys'],
    summary: 'Revoke an API key; takes effect on every server within a second',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: apiKeyRecord,
  }),
  listSshKeys: endpoint({
    ...account,
    method: 'GET',
    path: '/v2/ssh-keys',
    access: ['compute:read', 'keys'],
    summary: 'List SSH keys, which are installed on new machines',
    errors: [400, 401, 403, 500],
    response: z.object({ sshKeys: z.array(sshKeyRecord) }),
  }),
  addSshKey: endpoint({
    ...account,
    method: 'POST',
    path: '/v2/ssh-keys',
    access: ['compute:write', 'keys'],
    summary: 'Add an SSH public key',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({ name: nameText, publicKey: z.string().trim().min(1).max(limits.sshKeyChars) })
      .meta({ id: 'AddSshKey' }),
    response: sshKeyRecord,
    idempotent: true,
  }),
  deleteSshKey: endpoint({
    ...account,
    method: 'DELETE',
    path: '/v2/ssh-keys/{id}',
    access: ['compute:write', 'keys'],
    summary: 'Delete an SSH key; running machines keep it',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
