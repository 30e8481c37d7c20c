/**
 * `berth login` (RFC 8628). A device gets a secret and a short code; a signed-in person types the code, sees which device
 * shows it, and gives it a key of their own that ends. No link contains the code, so that nobody approves the device of
 * somebody else with a click.
 */
import { randomBytes, randomInt } from 'node:crypto'
import { sha256 } from '../../base/id.ts'
import { addMs, DAY_MS, HOUR_MS, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { clientNetworkOf } from '../../base/net/client-network.ts'
import type { Scope } from '../../contract/endpoint.ts'
import { fail, ok, type Failure, type Result } from '../../contract/result.ts'
import { effectiveScopes } from '../../domain/api-key.ts'
import { findAccount } from '../../store/account/account.ts'
import { findApiKey, noKeyLimits, revokeApiKeys } from '../../store/account/api-key.ts'
import { lockAndCount } from '../../store/account/client-network.ts'
import {
  approveLogin,
  countWrongDeviceCode,
  deleteDeviceLogins,
  denyLogin,
  forgetSealedKey,
  insertDeviceLogin,
  listDeviceKeys,
  lockDeviceLogin,
  lockPendingLogin,
  lockUnfetchedLogins,
  lockWrongDeviceCodes,
  notePoll,
  type DeviceKey,
  type DeviceLogin,
} from '../../store/account/device-login.ts'
import { findKeyAccount, findMembership } from '../../store/account/person.ts'
import { recordEvent } from '../../store/notice/event.ts'
import { transact, type Db, type Tx } from '../../store/platform/database.ts'
import { createApiKey, keyRevoked } from '../account/api-key.ts'
import type { Actor, App } from '../app.ts'
import { refuseWeakSession } from './account-requirement.ts'
import { ensurePersonKey } from './person-key.ts'
import { sessionOf } from './person.ts'
import { refuseOldSignIn } from './recent-sign-in.ts'

/** No vowels, so that no code is a word; no digits, since a phone would have to switch its keyboard. */
const CONSONANTS = 'BCDFGHJKLMNPQRSTVWXZ'
const CODE_CHARS = 8
const DEVICE_CODE_BYTES = 32

export interface NewLogin {
  readonly deviceCode: string
  /** In the form that people read: `BCDF-GHJK`. */
  readonly userCode: string
}

export interface Device {
  /** The name that it says it has. */
  readonly hostName: string
  readonly address: string
  /** How long it asks for. null: it does not say. */
  readonly days: number | null
}

export async function createDeviceLogin(app: App, device: Device): Promise<Result<NewLogin>> {
  if (app.people === undefined) return fail('people_not_configured')
  return transact(app.database, (tx) => beginDeviceLogin(tx, device))
}

export async function beginDeviceLogin(tx: Tx, { hostName, address, days }: Device): Promise<Result<NewLogin>> {
  const now = tx.clock.now()
  const network = clientNetworkOf(address)
  const logins = await lockAndCount(tx, 'device_login', network, addMs(now, -HOUR_MS))
  if (logins >= limits.deviceLoginsPerHour) return fail('too_many_device_logins')
  const deviceCode = randomBytes(DEVICE_CODE_BYTES).toString('base64url')
  const userCode = Array.from({ length: CODE_CHARS }, () => CONSONANTS[randomInt(CONSONANTS.length)]).join('')
  await insertDeviceLogin(tx, {
    deviceCodeHash: sha256(deviceCode),
    userCodeHash: sha256(userCode),
    hostName,
    address,
    network,
    days,
    expiresAt: addMs(now, limits.deviceLoginMs),
  })
  return ok({ deviceCode, userCode: `${userCode.slice(0, 4)}-${userCode.slice(4)}` })
}

export interface FetchedKey {
  readonly text: string
  readonly keyId: string
  readonly scopes: readonly Scope[]
  readonly accountId: string
  readonly accountName: string
  readonly expiresAt: Instant
}

type Redeemed = { readonly kind: 'key'; readonly key: FetchedKey } | Refused
interface Refused {
  readonly kind: 'refused'
  readonly failure: Failure
}

/** Gives the device its key, once. The transaction commits also where it refuses, since it has counted a request. */
export async function redeemDeviceLogin(app: App, deviceCode: string): Promise<Result<FetchedKey>> {
  const result = await transact(app.database, async (tx): Promise<Result<Redeemed>> => {
    const login = await lockDeviceLogin(tx, sha256(deviceCode))
    return ok(login === undefined ? refused(fail('expired_token')) : await redeem(app, tx, login))
  })
  if (!result.ok) return result
  return result.value.kind === 'key' ? ok(result.value.key) : result.value.failure
}

async function redeem({ vault }: App, tx: Tx, login: DeviceLogin): Promise<Redeemed> {
  const now = tx.clock.now()
  if (login.decision === 'denied') return refused(fail('access_denied'))
  if (login.expires_at <= now) return refused(fail('expired_token'))
  if (login.decision === null) return refused(await countPoll(tx, login))
  const accountId = login.api_key_id === null ? undefined : await findKeyAccount(tx.db, login.api_key_id)
  if (login.key_sealed === null || login.api_key_id === null || accountId === undefined)
    return refused(fail('expired_token'))
  const key = await findApiKey(tx.db, accountId, login.api_key_id)
  const account = await findAccount(tx.db, accountId)
  if (account === undefined || key === undefined || key.expires_at === null || key.revoked_at !== null)
    return refused(fail('expired_token'))
  await forgetSealedKey(tx, login.device_code_hash)
  const { public_id: keyId, scopes, expires_at: expiresAt } = key
  const text = vault.open(login.key_sealed)
  return { kind: 'key', key: { text, keyId, scopes, accountId, accountName: account.name, expiresAt } }
}

async function countPoll(tx: Tx, login: DeviceLogin): Promise<Failure> {
  const { polled_at: before, interval_s: intervalS } = login
  const isTooSoon = before !== null && tx.clock.now() - before < intervalS * 1_000
  const nextS = isTooSoon ? Math.min(intervalS + limits.devicePollS, limits.devicePollMostS) : intervalS
  await notePoll(tx, login.device_code_hash, nextS)
  return isTooSoon ? fail('slow_down') : fail('authorization_pending')
}

/** The login whose code the person typed. Five wrong codes end what the person could approve: codes live as long as the count. */
async function lockTyped(tx: Tx, personId: string, typed: string): Promise<DeviceLogin | Refused> {
  const tries = await lockWrongDeviceCodes(tx, personId, addMs(tx.clock.now(), -limits.deviceLoginMs))
  const tooMany = refused(fail('too_many_device_codes'))
  if (tries >= limits.deviceCodeTries) return tooMany
  const login = await lockPendingLogin(tx, sha256(typed.toUpperCase().replaceAll(/[^A-Z]/g, '')))
  if (login !== undefined) return login
  await countWrongDeviceCode(tx, personId, tries)
  return tries + 1 >= limits.deviceCodeTries ? tooMany : refused(fail('device_code_not_found'))
}

export async function findDeviceLogin(app: App, actor: Actor, userCode: string): Promise<Result<DeviceLogin>> {
  return withTyped(app, actor, userCode, async (_, login) => ok(login))
}

export async function denyDeviceLogin(app: App, actor: Actor, userCode: string): Promise<Result<DeviceLogin>> {
  return withTyped(app, actor, userCode, async (tx, login) => {
    await denyLogin(tx, login.device_code_hash)
    return ok(login)
  })
}

export interface Approval {
  readonly accountId: string
  readonly scopes: readonly Scope[]
  readonly days: number
}

export async function approveDeviceLogin(
  app: App,
  actor: Actor,
  userCode: string,
  approval: Approval,
): Promise<Result<DeviceKey>> {
  return withTyped(app, actor, userCode, async (tx, login) => {
    const approver = await actInAccount(tx, actor, approval)
    if (!approver.ok) return approver
    const now = tx.clock.now()
    const created = await createApiKey(tx, approver.value, {
      ...noKeyLimits,
      name: `berth login on ${login.host_name}`.slice(0, limits.nameChars),
      kind: 'device',
      scopes: approval.scopes,
      expiresAt: addMs(now, approval.days * DAY_MS),
    })
    if (!created.ok) return created
    const { key, text } = created.value
    // The device may be waiting for its next turn to ask.
    const fetchUntil = addMs(now, limits.deviceFetchMs)
    await approveLogin(tx, login.device_code_hash, {
      keyId: key.public_id,
      sealed: app.vault.seal(text),
      expiresAt: login.expires_at > fetchUntil ? login.expires_at : fetchUntil,
    })
    const written = (await listDeviceKeys(tx.db, actor.personId, now)).find(({ id }) => id === key.public_id)
    if (written === undefined) throw new Error('the key of the device was not written')
    return ok(written)
  })
}

/** A refusal of the code commits, since it was counted; what `work` refuses is rolled back and leaves the login pending. */
async function withTyped<T>(
  app: App,
  actor: Actor,
  userCode: string,
  work: (tx: Tx, login: DeviceLogin) => Promise<Result<T>>,
): Promise<Result<T>> {
  const signedIn = sessionOf(actor)
  if (!signedIn.ok) return signedIn
  const { personId } = signedIn.value
  const result = await transact(app.database, async (tx): Promise<Result<{ done: T } | Refused>> => {
    const login = await lockTyped(tx, personId, userCode)
    if ('kind' in login) return ok(login)
    const done = await work(tx, login)
    return done.ok ? ok({ done: done.value }) : done
  })
  if (!result.ok) return result
  return 'done' in result.value ? ok(result.value.done) : result.value.failure
}

/** The person as a session would act for them in that account. */
export async function actInAccount(tx: Tx, actor: Actor, { accountId, scopes }: Approval): Promise<Result<Actor>> {
  const signedIn = sessionOf(actor)
  if (!signedIn.ok) return signedIn
  const { personId, session } = signedIn.value
  const membership = await findMembership(tx.db, personId, accountId)
  if (membership === undefined) return fail('account_not_found')
  if (membership.suspendedAt !== null) return fail('account_suspended')
  const weak = refuseWeakSession(membership, session)
  if (weak !== undefined) return weak
  const old = scopes.includes('operator') ? refuseOldSignIn(tx.clock, actor) : undefined
  if (old !== undefined) return old
  const keyId = await ensurePersonKey(tx, personId, membership)
  const key = await findApiKey(tx.db, accountId, keyId)
  if (key === undefined) throw new Error('the key of the person was not written')
  const { role } = membership
  return ok({ accountId, personId, keyId, role, scopes: effectiveScopes(role, key.scopes) })
}

/** A session of an account's own provider sees and ends only devices of that account. */
export async function listOwnDevices(db: Db, { personId, session }: Actor, now: Instant): Promise<DeviceKey[]> {
  const devices = await listDeviceKeys(db, personId, now)
  const confinedTo = session?.confinedTo ?? null
  return devices.filter(({ accountId }) => confinedTo === null || accountId === confinedTo)
}

export async function endOwnDevice(tx: Tx, actor: Actor, keyId: string): Promise<Result<void>> {
  const devices = await listOwnDevices(tx.db, actor, tx.clock.now())
  if (!devices.some(({ id }) => id === keyId)) return fail('device_not_found')
  await endDeviceKeys(tx, actor.personId, { keyId })
  return ok(undefined)
}

/** Logs one device of the person out, or all. Returns how many. */
async function endDeviceKeys(tx: Tx, personId: string, which: { readonly keyId: string } | 'all'): Promise<number> {
  const keys = await listDeviceKeys(tx.db, personId, tx.clock.now())
  const ending = which === 'all' ? keys : keys.filter(({ id }) => id === which.keyId)
  for (const { id, accountId } of ending) await revokeDeviceKey(tx, accountId, id)
  return ending.length
}

/** The device itself logs out. Keys that others could have created end no others. */
export async function logOutDevice(tx: Tx, actor: Actor, everywhere: boolean): Promise<Result<number>> {
  const key = await findApiKey(tx.db, actor.accountId, actor.keyId)
  if (key?.kind !== 'device') return fail('not_a_device')
  return ok(await endDeviceKeys(tx, actor.personId, everywhere ? 'all' : { keyId: actor.keyId }))
}

const BATCH = 100

/** Revokes keys that no device fetched, and deletes old logins. True: there may be more. */
export async function expireDeviceLogins(app: App): Promise<boolean> {
  const unfetched = await transact(app.database, async (tx) => {
    const logins = await lockUnfetchedLogins(tx, BATCH)
    for (const { device_code_hash: hash, api_key_id: keyId } of logins) {
      await forgetSealedKey(tx, hash)
      const accountId = keyId === null ? undefined : await findKeyAccount(tx.db, keyId)
      if (keyId !== null && accountId !== undefined) await revokeDeviceKey(tx, accountId, keyId)
    }
    return logins.length
  })
  const before = addMs(app.clock.now(), -HOUR_MS)
  return (await deleteDeviceLogins(app.database.db, before, BATCH)) === BATCH || unfetched === BATCH
}

export async function revokeDeviceKey(tx: Tx, accountId: string, publicId: string): Promise<void> {
  for (const key of await revokeApiKeys(tx, accountId, { publicId })) recordEvent(tx, keyRevoked(key))
}

function refused(failure: Failure): Refused {
  return { kind: 'refused', failure }
}
