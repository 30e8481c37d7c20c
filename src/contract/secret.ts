/** Secrets and registry logins of an account, which orders refer to. No operation returns a value (v2). */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { message, textIdParams, timestamp } from './shared.ts'
import { secretName } from './workload.ts'

const secretRecord = z
  .object({
    name: z.string(),
    createdAt: timestamp,
    updatedAt: timestamp,
    rentals: z.array(z.int32()).describe('Rentals that refer to it; at most 100'),
  })
  .meta({ id: 'Secret' })

const registryCredentialRecord = z
  .object({ id: z.string(), name: z.string(), server: z.string(), username: z.string(), createdAt: timestamp })
  .meta({ id: 'RegistryCredential' })

const nameText = z.string().trim().min(1).max(limits.nameChars)
const registryServer = z
  .string()
  .max(300)
  .regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$/, 'Must be a host name such as registry.example.com')

const secretValue = z
  .string()
  .min(1)
  .refine((text) => new TextEncoder().encode(text).length <= limits.secretBytes, {
    message: `Must have at most ${limits.secretBytes} bytes`,
  })
  .refine((text) => !text.includes('\0'), { message: 'Must not contain NUL characters' })

const reading = { family: 'v2', tag: 'Secrets', access: ['compute:read'] } as const
const writing = { family: 'v2', tag: 'Secrets', access: ['compute:write'] } as const

export const secretEndpoints = {
  listSecrets: endpoint({
    ...reading,
    method: 'GET',
    path: '/v2/secrets',
    summary: 'List the names of secrets',
    errors: [400, 401, 403, 500],
    response: z.object({ secrets: z.array(secretRecord) }),
  }),
  setSecret: endpoint({
    ...writing,
    method: 'PUT',
    path: '/v2/secrets/{name}',
    summary: 'Create a secret, or replace its value',
    description:
      'Orders refer to it as `{{ secrets.NAME }}` in environment variables, files and scripts. A machine keeps the value that it was created with; start scripts of containers get the current one at every start. Values are encrypted and never returned.',
    errors: [400, 401, 403, 404, 500],
    params: z.object({ name: secretName }),
    body: z.strictObject({ value: secretValue }).meta({ id: 'SetSecret' }),
    response: secretRecord,
  }),
  deleteSecret: endpoint({
    ...writing,
    method: 'DELETE',
    path: '/v2/secrets/{name}',
    summary: 'Delete a secret that no rental refers to',
    errors: [400, 401, 403, 404, 500],
    params: z.object({ name: secretName }),
    response: message,
  }),
  listRegistryCredentials: endpoint({
    ...reading,
    method: 'GET',
    path: '/v2/registry-credentials',
    summary: 'List registry logins, without passwords',
    errors: [400, 401, 403, 500],
    response: z.object({ registryCredentials: z.array(registryCredentialRecord) }),
  }),
  addRegistryCredential: endpoint({
    ...writing,
    method: 'POST',
    path: '/v2/registry-credentials',
    summary: 'Add a login for a private image registry',
    errors: [400, 401, 403, 404, 500],
    body: z
      .strictObject({
        name: nameText.meta({ examples: ['Team registry'] }),
        server: registryServer.meta({
          title: 'Registry',
          description: 'Host of the registry, as in the names of its images',
          examples: ['registry.example.com'],
        }),
        username: z.string().min(1).max(limits.nameChars).meta({ title: 'User name' }),
        password: z.string().min(1).max(10_000).meta({ title: 'Password or access token' }),
      })
      .meta({ id: 'AddRegistryCredential' }),
    response: registryCredentialRecord,
    idempotent: true,
  }),
  deleteRegistryCredential: endpoint({
    ...writing,
    method: 'DELETE',
    path: '/v2/registry-credentials/{id}',
    summary: 'Delete a registry login that no rental uses',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
