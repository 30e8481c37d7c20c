/**
 * Agents sign in with OAuth 2.1: a person approves a client in the console, the browser takes a code to it, and the client
 * exchanges the code and its own secret (PKCE) for an API key of that person, which ends.
 */
import { randomBytes } from 'node:crypto'
import { sha256 } from '../../base/id.ts'
import { addMs, DAY_MS, HOUR_MS } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { findAccount } from '../../store/account/account.ts'
import { findApiKey, noKeyLimits } from '../../store/account/api-key.ts'
import {
  deleteOauthGrants,
  forgetOauthKey,
  insertOauthGrant,
  lockOauthGrant,
  lockUnusedGrants,
  type OauthGrant,
} from '../../store/account/oauth-grant.ts'
import { findKeyAccount } from '../../store/account/person.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import { createApiKey } from '../account/api-key.ts'
import type { Actor, App } from '../app.ts'
import { actInAccount, revokeDeviceKey, type Approval, type FetchedKey } from './device-login.ts'
import { readOauthClient, type OauthClient } from './oauth-client.ts'
import { sessionOf } from './person.ts'

const CODE_BYTES = 32
const BATCH = 100

export interface OauthRequest {
  readonly clientId: string
  readonly redirectUri: string
  /** The SHA-256 of the client's secret, in base64url. */
  readonly codeChallenge: string
  readonly state?: string | undefined
}

/** Returns where the browser takes the code. */
export async function approveOauthClient(
  app: App,
  actor: Actor,
  request: OauthRequest,
  approval: Approval,
): Promise<Result<string>> {
  const client = await readOauthClient(app, request.clientId, request.redirectUri)
  if (!client.ok) return client
  const challenge = Buffer.from(request.codeChallenge, 'base64url')
  const code = randomBytes(CODE_BYTES).toString('base64url')
  const written = await transact(app.database, async (tx): Promise<Result<void>> => {
    const approver = await actInAccount(tx, actor, approval)
    if (!approver.ok) return approver
    const now = tx.clock.now()
    const created = await createApiKey(tx, approver.value, {
      ...noKeyLimits,
      name: `${client.value.name} (${client.value.host})`.slice(0, limits.nameChars),
      kind: 'device',
      scopes: approval.scopes,
      expiresAt: addMs(now, approval.days * DAY_MS),
    })
    if (!created.ok) return created
    await insertOauthGrant(tx, {
      codeHash: sha256(code),
      clientId: request.clientId,
      redirectUri: request.redirectUri,
      challenge,
      keyId: created.value.key.public_id,
      keySealed: app.vault.seal(created.value.text),
      expiresAt: addMs(now, limits.oauthCodeMs),
    })
    return ok(undefined)
  })
  return written.ok ? ok(targetOf(app, client.value, request, { code })) : written
}

/** Returns where the browser takes the refusal. */
export async function denyOauthClient(app: App, request: OauthRequest): Promise<Result<string>> {
  const client = await readOauthClient(app, request.clientId, request.redirectUri)
  return client.ok ? ok(targetOf(app, client.value, request, { error: 'access_denied' })) : client
}

/** The issuer tells a client of several servers which one answers (RFC 9207). */
function targetOf(
  { people }: App,
  { redirectUri }: OauthClient,
  { state }: OauthRequest,
  answer: { readonly code: string } | { readonly error: string },
): string {
  const target = new URL(redirectUri)
  const answers = { ...answer, ...(state === undefined ? {} : { state }), iss: people?.publicUrl ?? '' }
  for (const [name, value] of Object.entries(answers)) target.searchParams.set(name, value)
  return target.href
}

export interface Exchange {
  readonly code: string
  readonly clientId: string
  readonly redirectUri: string
  readonly verifier: string
}

/** Gives the client its key, once. A second use of a code means that two have it: the key ends (OAuth 2.1, section 4.1.3). */
export async function exchangeOauthCode(app: App, exchange: Exchange): Promise<Result<FetchedKey>> {
  const result = await transact(app.database, async (tx): Promise<Result<FetchedKey | undefined>> => {
    const grant = await lockOauthGrant(tx, sha256(exchange.code))
    if (grant === undefined) return ok(undefined)
    if (grant.key_sealed === null) {
      await endKey(tx, grant)
      return ok(undefined)
    }
    const isRight =
      grant.client_id === exchange.clientId &&
      grant.redirect_uri === exchange.redirectUri &&
      grant.challenge.equals(sha256(exchange.verifier)) &&
      grant.expires_at > tx.clock.now()
    return ok(isRight ? await redeem(app, tx, grant, grant.key_sealed) : undefined)
  })
  if (!result.ok) return result
  return result.value === undefined ? fail('oauth_code_invalid') : ok(result.value)
}

async function redeem({ vault }: App, tx: Tx, grant: OauthGrant, sealed: string): Promise<FetchedKey | undefined> {
  const accountId = await findKeyAccount(tx.db, grant.api_key_id)
  if (accountId === undefined) return undefined
  const key = await findApiKey(tx.db, accountId, grant.api_key_id)
  const account = await findAccount(tx.db, accountId)
  if (account === undefined || key === undefined || key.expires_at === null || key.revoked_at !== null) return undefined
  await forgetOauthKey(tx, grant.code_hash)
  const { public_id: keyId, scopes, expires_at: expiresAt } = key
  return { text: vault.open(sealed), keyId, scopes, accountId, accountName: account.name, expiresAt }
}

/** Revokes keys whose code nobody exchanged, and deletes old grants. True: there may be more. */
export async function expireOauthGrants(app: App): Promise<boolean> {
  const unused = await transact(app.database, async (tx) => {
    const grants = await lockUnusedGrants(tx, BATCH)
    for (const grant of grants) {
      await forgetOauthKey(tx, grant.code_hash)
      await endKey(tx, grant)
    }
    return grants.length
  })
  const before = addMs(app.clock.now(), -HOUR_MS)
  return (await deleteOauthGrants(app.database.db, before, BATCH)) === BATCH || unused === BATCH
}

async function endKey(tx: Tx, { api_key_id: keyId }: OauthGrant): Promise<void> {
  const accountId = await findKeyAccount(tx.db, keyId)
  if (accountId !== undefined) await revokeDeviceKey(tx, accountId, keyId)
}

/** Who approves must be a person. */
export async function findOauthClient(app: App, actor: Actor, request: OauthRequest): Promise<Result<OauthClient>> {
  const signedIn = sessionOf(actor)
  return signedIn.ok ? readOauthClient(app, request.clientId, request.redirectUri) : signedIn
}
