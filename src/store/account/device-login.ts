/** Logins of devices, and the keys that devices got. Only hashes of codes are stored. */
import { sql, type Selectable } from 'kysely'
import { toDate, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { Scope } from '../../contract/endpoint.ts'
import { at, type Db, type Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type DeviceLogin = Selectable<Tables['device_login']>

export interface NewDeviceLogin {
  readonly deviceCodeHash: Buffer
  readonly userCodeHash: Buffer
  readonly hostName: string
  readonly address: string
  readonly network: string
  /** null: it does not say. */
  readonly days: number | null
  readonly expiresAt: Instant
}

export async function insertDeviceLogin(tx: Tx, login: NewDeviceLogin): Promise<void> {
  await tx.db
    .insertInto('device_login')
    .values({
      device_code_hash: login.deviceCodeHash,
      user_code_hash: login.userCodeHash,
      host_name: login.hostName,
      address: login.address,
      network: login.network,
      days: login.days,
      created_at: toDate(tx.clock.now()),
      expires_at: toDate(login.expiresAt),
      interval_s: limits.devicePollS,
    })
    .execute()
}

/** The login of the device with this secret, expired or not. */
export async function lockDeviceLogin(tx: Tx, deviceCodeHash: Buffer): Promise<DeviceLogin | undefined> {
  return tx.db
    .selectFrom('device_login')
    .selectAll()
    .where('device_code_hash', '=', deviceCodeHash)
    .forUpdate()
    .executeTakeFirst()
}

/** The login that nobody has decided, by the code that the device shows. */
export async function lockPendingLogin(tx: Tx, userCodeHash: Buffer): Promise<DeviceLogin | undefined> {
  return tx.db
    .selectFrom('device_login')
    .selectAll()
    .where('user_code_hash', '=', userCodeHash)
    .where('decision', 'is', null)
    .where('expires_at', '>', at(tx.clock.now()))
    .forUpdate()
    .executeTakeFirst()
}

export async function notePoll(tx: Tx, deviceCodeHash: Buffer, intervalS: number): Promise<void> {
  await tx.db
    .updateTable('device_login')
    .set({ polled_at: toDate(tx.clock.now()), interval_s: intervalS })
    .where('device_code_hash', '=', deviceCodeHash)
    .execute()
}

export async function approveLogin(
  tx: Tx,
  deviceCodeHash: Buffer,
  key: { readonly keyId: string; readonly sealed: string; readonly expiresAt: Instant },
): Promise<void> {
  await tx.db
    .updateTable('device_login')
    .set({
      decision: 'approved',
      api_key_id: key.keyId,
      key_sealed: key.sealed,
      expires_at: toDate(key.expiresAt),
    })
    .where('device_code_hash', '=', deviceCodeHash)
    .execute()
}

export async function denyLogin(tx: Tx, deviceCodeHash: Buffer): Promise<void> {
  await tx.db
    .updateTable('device_login')
    .set({ decision: 'denied' })
    .where('device_code_hash', '=', deviceCodeHash)
    .execute()
}

/** The device has the key, or nobody will ever have it. */
export async function forgetSealedKey(tx: Tx, deviceCodeHash: Buffer): Promise<void> {
  await tx.db
    .updateTable('device_login')
    .set({ key_sealed: null })
    .where('device_code_hash', '=', deviceCodeHash)
    .execute()
}

/** Locks expired logins whose key nobody fetched. Other servers skip them. */
export async function lockUnfetchedLogins(tx: Tx, limit: number): Promise<DeviceLogin[]> {
  return tx.db
    .selectFrom('device_login')
    .selectAll()
    .where('expires_at', '<=', at(tx.clock.now()))
    .where('key_sealed', 'is not', null)
    .orderBy('expires_at')
    .limit(limit)
    .forUpdate()
    .skipLocked()
    .execute()
}

export async function deleteDeviceLogins(db: Db, createdBefore: Instant, limit: number): Promise<number> {
  const result = await sql`
    delete from device_login where device_code_hash in (
      select device_code_hash from device_login
      where created_at < ${at(createdBefore)} and expires_at < ${at(createdBefore)} and key_sealed is null
      order by expires_at limit ${limit})`.execute(db)
  return Number(result.numAffectedRows ?? 0n)
}

/** How many codes of devices the person typed wrong since `since`. Locks the person, so that tries are counted one by one. */
export async function lockWrongDeviceCodes(tx: Tx, personId: string, since: Instant): Promise<number> {
  const row = await tx.db
    .selectFrom('person')
    .select(['wrong_device_codes as tries', 'wrong_device_codes_since as countedSince'])
    .where('id', '=', personId)
    .forNoKeyUpdate()
    .executeTakeFirstOrThrow()
  return row.countedSince === null || row.countedSince <= since ? 0 : row.tries
}

/** `triesBefore` 0: counting begins now. */
export async function countWrongDeviceCode(tx: Tx, personId: string, triesBefore: number): Promise<void> {
  await tx.db
    .updateTable('person')
    .set({
      wrong_device_codes: triesBefore + 1,
      ...(triesBefore === 0 ? { wrong_device_codes_since: toDate(tx.clock.now()) } : {}),
    })
    .where('id', '=', personId)
    .execute()
}

/** A live key of a device. */
export interface DeviceKey {
  readonly id: string
  readonly name: string
  readonly accountId: string
  readonly accountName: string
  readonly scopes: readonly Scope[]
  readonly createdAt: Instant
  readonly expiresAt: Instant
  readonly lastUsedAt: Instant | null
}

/** Lists the live keys of the person's devices in all accounts, the newest first. */
export async function listDeviceKeys(db: Db, personId: string, now: Instant): Promise<DeviceKey[]> {
  const rows = await db
    .selectFrom('api_key as k')
    .innerJoin('account as a', 'a.id', 'k.account_id')
    .select(['k.public_id as id', 'k.name', 'k.account_id as accountId', 'a.name as accountName', 'k.scopes'])
    .select(['k.created_at as createdAt', 'k.expires_at as expiresAt', 'k.last_used_at as lastUsedAt'])
    .where('k.person_id', '=', personId)
    .where('k.kind', '=', 'device')
    .where('k.revoked_at', 'is', null)
    .where('k.expires_at', '>', at(now))
    .orderBy('k.created_at', 'desc')
    .orderBy('k.public_id')
    .limit(limits.plainListRows)
    .execute()
  return rows.flatMap(({ expiresAt, ...key }) => (expiresAt === null ? [] : [{ ...key, expiresAt }]))
}
