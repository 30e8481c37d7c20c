/** Logins of devices over HTTP. */
import {
  approveDeviceLogin,
  createDeviceLogin,
  denyDeviceLogin,
  endOwnDevice,
  findDeviceLogin,
  listOwnDevices,
  logOutDevice,
  redeemDeviceLogin,
} from '../../app/person/device-login.ts'
import { limits } from '../../base/limits.ts'
import { ok } from '../../contract/result.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'

export const deviceLoginHandlers = {
  createDeviceLogin: async (app, { body, address = '' }) => {
    const created = await createDeviceLogin(app, { hostName: body.host_name, address, days: body.days ?? null })
    if (!created.ok) return created
    return ok({
      device_code: created.value.deviceCode,
      user_code: created.value.userCode,
      verification_uri: `${app.people?.publicUrl ?? ''}/device`,
      expires_in: limits.deviceLoginMs / 1_000,
      interval: limits.devicePollS,
    })
  },

  redeemDeviceLogin: async (app, { body, setHeader }) => {
    const redeemed = await redeemDeviceLogin(app, body.device_code)
    if (!redeemed.ok) return redeemed
    const { text, keyId, scopes, accountId, accountName, expiresAt } = redeemed.value
    setHeader?.('Cache-Control', 'no-store')
    return ok({
      access_token: text,
      token_type: 'Bearer' as const,
      expires_in: Math.floor((expiresAt - app.clock.now()) / 1_000),
      scope: scopes.join(' '),
      key_id: keyId,
      account_id: accountId,
      account_name: accountName,
    })
  },

  findDeviceLogin: async (app, { actor, body }) => {
    const login = await findDeviceLogin(app, actor, body.userCode)
    if (!login.ok) return login
    const { host_name: hostName, address, created_at: createdAt, expires_at: expiresAt, days } = login.value
    return ok({ hostName, address, createdAt, expiresAt, days })
  },

  approveDeviceLogin: async (app, { actor, body }) => {
    const { userCode, ...approval } = body
    const approved = await approveDeviceLogin(app, actor, userCode, approval)
    return approved.ok ? ok({ ...approved.value, scopes: [...approved.value.scopes] }) : approved
  },

  denyDeviceLogin: async (app, { actor, body }) => {
    const denied = await denyDeviceLogin(app, actor, body.userCode)
    return denied.ok ? ok({ message: `The login of ${denied.value.host_name} is refused` }) : denied
  },

  listDeviceKeys: async ({ database, clock }, { actor }) => {
    const devices = await listOwnDevices(database.db, actor, clock.now())
    return ok({ devices: devices.map((one) => ({ ...one, scopes: [...one.scopes] })) })
  },

  endDeviceKey: async ({ database }, { actor, params }) => {
    const ended = await transact(database, (tx) => endOwnDevice(tx, actor, params.id))
    return ended.ok ? ok({ message: 'The device is logged out' }) : ended
  },

  logOutDevice: async ({ database }, { actor, body }) => {
    const ended = await transact(database, (tx) => logOutDevice(tx, actor, body.everywhere))
    return ended.ok ? ok({ ended: ended.value }) : ended
  },
} satisfies Partial<Handlers>
