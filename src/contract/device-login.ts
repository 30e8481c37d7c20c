/**
 * `berth login` (RFC 8628): a device asks for a code, and a person types it in the console and decides. The operations that
 * the device calls have the names of the RFC in their bodies, and its errors as `reason`.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint, scopes } from './endpoint.ts'
import { message, textIdParams, timestamp } from './shared.ts'

const days = z.int().min(1).max(limits.deviceKeyDays)

/** Page and terminal show it, so it has nothing that moves a cursor. */
const hostName = z
  .string()
  .min(1)
  .max(255)
  .refine((text) => !/\p{C}/u.test(text), 'Must have no control characters')

const typedCode = z.strictObject({ userCode: z.string().min(1).max(50) })

const pendingLogin = z
  .object({
    hostName: z.string().describe('As the device says'),
    address: z.string().describe('The IP address that the device asked from'),
    createdAt: timestamp,
    expiresAt: timestamp,
    days: z.number().nullable().describe('How long the device asks for; null: it does not say'),
  })
  .meta({ id: 'DeviceLogin' })

const deviceKey = z
  .object({
    id: z.string().describe('The public id of its API key'),
    name: z.string(),
    accountId: z.string(),
    accountName: z.string(),
    scopes: z.array(z.enum(scopes)),
    createdAt: timestamp,
    expiresAt: timestamp,
    lastUsedAt: timestamp.nullable(),
  })
  .meta({ id: 'DeviceKey' })

const device = { family: 'v2', tag: 'Account', access: 'public' } as const
const person = { family: 'v2', tag: 'Account', access: 'person' } as const

export const deviceLoginEndpoints = {
  createDeviceLogin: endpoint({
    ...device,
    method: 'POST',
    path: '/v2/device/code',
    summary: 'Begin the login of a device, as `berth login` does (RFC 8628)',
    description:
      'Show `user_code` and `verification_uri` to the person, who types the code there, and ask for the key.',
    errors: [400, 500],
    body: z.strictObject({ host_name: hostName, days: days.optional() }).meta({ id: 'CreateDeviceLogin' }),
    response: z
      .object({
        device_code: z.string().describe('A secret of the device'),
        user_code: z.string().describe('Eight consonants'),
        verification_uri: z.string(),
        expires_in: z.number().describe('Seconds'),
        interval: z.number().describe('Seconds to wait between two requests for the key'),
      })
      .meta({ id: 'NewDeviceLogin' }),
  }),
  redeemDeviceLogin: endpoint({
    ...device,
    method: 'POST',
    path: '/v2/device/token',
    summary: 'Get the API key of a device that a person has approved',
    description:
      'Until then it fails with the reason `authorization_pending`, or with `slow_down` if it is called sooner than agreed: ' +
      'wait five seconds longer from then on. It ends with `access_denied` or `expired_token`. The key is given once.',
    errors: [400, 500],
    body: z.strictObject({ device_code: z.string().min(1).max(200) }).meta({ id: 'RedeemDeviceLogin' }),
    response: z
      .object({
        access_token: z.string().describe('The API key'),
        token_type: z.literal('Bearer'),
        expires_in: z.number().describe('Seconds'),
        scope: z.string().describe('Separated by spaces'),
        key_id: z.string(),
        account_id: z.string(),
        account_name: z.string(),
      })
      .meta({ id: 'DeviceToken' }),
  }),
  findDeviceLogin: endpoint({
    ...person,
    method: 'POST',
    path: '/v2/device/find',
    summary: 'Show the device that shows this code',
    errors: [400, 401, 403, 404, 500],
    body: typedCode.meta({ id: 'FindDeviceLogin' }),
    response: pendingLogin,
  }),
  approveDeviceLogin: endpoint({
    ...person,
    method: 'POST',
    path: '/v2/device/approve',
    summary: 'Log the device in with an API key of yours',
    description: 'The key has no scope that you lack in the account, and ends.',
    errors: [400, 401, 403, 404, 500],
    body: typedCode
      .extend({
        accountId: z.string().min(1).max(100),
        scopes: z.array(z.enum(scopes)).min(1).max(scopes.length),
        days: days.default(limits.deviceKeyDaysDefault),
      })
      .meta({ id: 'ApproveDeviceLogin' }),
    response: deviceKey,
  }),
  denyDeviceLogin: endpoint({
    ...person,
    method: 'POST',
    path: '/v2/device/deny',
    summary: 'Refuse the login of the device',
    errors: [400, 401, 403, 404, 500],
    body: typedCode.meta({ id: 'DenyDeviceLogin' }),
    response: message,
  }),
  listDeviceKeys: endpoint({
    ...person,
    method: 'GET',
    path: '/v2/people/me/devices',
    summary: 'List the devices that are logged in as you, in all accounts',
    errors: [401, 403, 500],
    response: z.object({ devices: z.array(deviceKey) }),
  }),
  endDeviceKey: endpoint({
    ...person,
    method: 'DELETE',
    path: '/v2/people/me/devices/{id}',
    summary: 'Log a device out; takes effect on every server within a second',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
  logOutDevice: endpoint({
    family: 'v2',
    tag: 'Account',
    access: 'any-key',
    method: 'POST',
    path: '/v2/device/log-out',
    summary: 'Revoke the API key of this device',
    description:
      'Only keys of `berth login` can do this. `everywhere` includes all other devices of the person, in all accounts.',
    errors: [400, 401, 403, 500],
    body: z.strictObject({ everywhere: z.boolean().default(false) }).meta({ id: 'LogOutDevice' }),
    response: z.object({ ended: z.number().describe('How many devices were logged out') }),
  }),
}
