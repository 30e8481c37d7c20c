/** Passkeys and recovery codes of the person who is signed in (v2). */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { message, reasonText, textIdParams, timestamp } from './shared.ts'

const passkeyName = z.string().trim().min(1).max(100)

const passkeyRecord = z
  .object({
    id: z.string(),
    name: z.string(),
    isSynced: z.boolean().describe('Whether it is also on other devices of the person'),
    createdAt: timestamp,
    lastUsedAt: timestamp.nullable(),
  })
  .meta({ id: 'Passkey' })

const person = { family: 'v2', tag: 'Account', access: 'person' } as const

export const factorEndpoints = {
  listFactors: endpoint({
    ...person,
    method: 'GET',
    path: '/v2/people/me/factors',
    summary: 'List your passkeys, and count your recovery codes',
    errors: [401, 403, 500],
    response: z.object({
      passkeys: z.array(passkeyRecord),
      recoveryCodes: z.object({
        unused: z.number(),
        createdAt: timestamp.nullable().describe('null: there are none'),
      }),
    }),
  }),
  renamePasskey: endpoint({
    ...person,
    method: 'PATCH',
    path: '/v2/people/me/passkeys/{id}',
    summary: 'Rename a passkey',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z.strictObject({ name: passkeyName }).meta({ id: 'RenamePasskey' }),
    response: passkeyRecord,
  }),
  removePasskey: endpoint({
    ...person,
    method: 'DELETE',
    path: '/v2/people/me/passkeys/{id}',
    summary: 'Remove a passkey',
    description:
      'Your recovery codes end with the last one. It needs a recent sign-in that showed a passkey or a recovery code.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
    needsRecentSignIn: true,
  }),
  createRecoveryCodes: endpoint({
    ...person,
    method: 'POST',
    path: '/v2/people/me/recovery-codes',
    summary: 'Create recovery codes; they are shown once and end the ones before',
    description: 'Each stands once for a passkey that was lost. It needs a recent sign-in that showed a passkey.',
    errors: [400, 401, 403, 500],
    response: z.object({ codes: z.array(z.string()) }).meta({ id: 'RecoveryCodes' }),
    needsRecentSignIn: true,
  }),
  resetFactors: endpoint({
    family: 'v2',
    tag: 'Operator',
    access: ['operator'],
    method: 'POST',
    path: '/v2/operator/people/{id}/reset-factors',
    summary: 'Remove all passkeys and recovery codes of a person who lost them',
    description:
      'Their sessions end. They sign in with their address again and add a passkey. Make sure that it is they who ask.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z.strictObject({ reason: reasonText }).meta({ id: 'ResetFactors' }),
    response: z.object({ passkeys: z.number().describe('How many were removed') }),
    needsRecentSignIn: true,
  }),
}
