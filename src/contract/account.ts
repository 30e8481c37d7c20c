/** Who is calling: the account, its members, API keys and SSH keys (v2). */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint, scopes } from './endpoint.ts'
import { message, nonNegativeUsdText, textIdParams, timeText } from './shared.ts'

const nameText = z.string().trim().min(1).max(limits.nameChars)
const role = z.enum(['owner', 'member', 'viewer'])
export type Role = z.infer<typeof role>

export const accountRecord = z
  .object({
    id: z.string(),
    name: z.string(),
    createdAt: z.string(),
    suspended: z.boolean(),
    supplier: z.boolean(),
    keepsBodies: z.boolean().describe('Whether the request log keeps the texts of inference requests and answers'),
  })
  .meta({ id: 'Account' })

export const memberRecord = z
  .object({
    id: z.string(),
    email: z.string(),
    name: z.string().nullable(),
    picture: z.string().nullable(),
    role,
    createdAt: z.string(),
  })
  .meta({ id: 'Member' })

const apiKeyRecord = z
  .object({
    publicId: z.string(),
    memberId: z.string().describe('Whom it acts for'),
    name: z.string(),
    last4: z.string(),
    scopes: z.array(z.enum(scopes)),
    allowedModels: z.array(z.string()).nullable(),
    monthlyLimitUsd: z.string().nullable(),
    totalLimitUsd: z.string().nullable(),
    requestsPerMinute: z.number().nullable(),
    tokensPerMinute: z.number().nullable(),
    createdAt: z.string(),
    expiresAt: z.string().nullable(),
    lastUsedAt: z.string().nullable(),
    revokedAt: z.string().nullable(),
  })
  .meta({ id: 'ApiKey' })

const sshKeyRecord = z
  .object({
    id: z.string(),
    name: z.string(),
    publicKey: z.string(),
    fingerprint: z.string(),
    createdAt: z.string(),
  })
  .meta({ id: 'SshKey' })

const account = { family: 'v2', tag: 'Account' } as const

export const accountEndpoints = {
  getMe: endpoint({
    ...account,
    method: 'GET',
    path: '/v2/users/me',
    access: 'any-key',
    summary: 'Who this key acts for',
    errors: [401, 403, 500],
    response: z.object({
      id: z.string(),
      email: z.string(),
      name: z.string().nullable(),
      picture: z.string().nullable(),
      role,
      account: accountRecord,
      key: z.object({ publicId: z.string(), name: z.string(), scopes: z.array(z.enum(scopes)) }),
      lastEventId: z
        .string()
        .describe('The newest event of the account, `0` for none: follow events after it to miss none from here on'),
    }),
  }),
  changeAccountSettings: endpoint({
    ...account,
    method: 'PATCH',
    path: '/v2/account/settings',
    access: ['keys'],
    summary: 'Change what the account has chosen for itself (owners only)',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        keepsBodies: z
          .boolean()
          .describe('true: from now on the request log keeps the texts of inference requests and answers, sealed'),
      })
      .meta({ id: 'ChangeAccountSettings' }),
    response: accountRecord,
  }),
  listMembers: endpoint({
    ...account,
    method: 'GET',
    path: '/v2/members',
    access: ['keys'],
    summary: 'People of the account',
    errors: [400, 401, 403, 500],
    response: z.object({ members: z.array(memberRecord) }),
  }),
  addMember: endpoint({
    ...account,
    method: 'POST',
    path: '/v2/members',
    access: ['keys'],
    summary: 'Add a person to the account (owners only)',
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
    summary: 'Change the role of a person (owners only)',
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
    summary: 'Remove a person and revoke the keys made for them (owners only)',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
  listApiKeys: endpoint({
    ...account,
    method: 'GET',
    path: '/v2/api-keys',
    access: ['keys'],
    summary: 'API keys of the account, revoked ones too',
    errors: [400, 401, 403, 500],
    response: z.object({ apiKeys: z.array(apiKeyRecord) }),
  }),
  createApiKey: endpoint({
    ...account,
    method: 'POST',
    path: '/v2/api-keys',
    access: ['keys'],
    summary: 'Make an API key',
    description: 'The key is in this answer and nowhere else. It gets no scope that the calling key lacks.',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        name: nameText,
        memberId: z.string().min(1).max(100).optional().describe('For whom; without it, for yourself. Owners only'),
        scopes: z.array(z.enum(scopes)).min(1).max(scopes.length),
        expiresAt: timeText.optional(),
        allowedModels: z.array(z.string().min(1).max(200)).min(1).max(100).optional(),
        monthlyLimitUsd: nonNegativeUsdText.optional(),
        totalLimitUsd: nonNegativeUsdText.optional(),
        requestsPerMinute: z.int().min(1).max(1_000_000).optional(),
        tokensPerMinute: z.int().min(1).max(1_000_000_000).optional().describe('Of inference'),
      })
      .meta({ id: 'CreateApiKey' }),
    response: apiKeyRecord.extend({ key: z.string().describe('`bk_…`, shown once') }).meta({ id: 'NewApiKey' }),
    idempotent: true,
  }),
  revokeApiKey: endpoint({
    ...account,
    method: 'DELETE',
    path: '/v2/api-keys/{id}',
    access: ['keys'],
    summary: 'Revoke an API key, on every server within a second',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: apiKeyRecord,
  }),
  listSshKeys: endpoint({
    ...account,
    method: 'GET',
    path: '/v2/ssh-keys',
    access: ['compute:read', 'keys'],
    summary: 'SSH keys that new machines let in',
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
    summary: 'Delete an SSH key; machines that run keep it',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
