/**
 * Hosts: joining, and managing them as owner or operator. A machine is identified by its key, so a join whose response
 * was lost can be repeated; the token without the key is worthless for a machine that has joined.
 */
import { createPublicKey } from 'node:crypto'
import { randomName } from '../../base/id.ts'
import { addMs, formatInstant, HOUR_MS } from '../../base/instant.ts'
import { hashJoinToken, makeJoinToken } from '../../base/join-token.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { HostOffer } from '../../contract/agent.ts'
import type { AuditAction } from '../../domain/audit.ts'
import type { HostAddress } from '../../domain/host.ts'
import { findOfferFault } from '../../domain/offer.ts'
import { findAccount, lockAccount } from '../../store/account/account.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Tx } from '../../store/platform/database.ts'
import { hasTenants, isReachedOverSsh, moveHost, setHostState, type HostRow } from '../../store/host/host.ts'
import {
  findHostRecord,
  insertHost,
  isNameTaken,
  lockHost,
  removeHost,
  replaceMetalHost,
  updateOffer,
  type HostRecord,
} from '../../store/host/host-admin.ts'
import {
  countJoinTokens,
  deleteJoinToken,
  insertJoinToken,
  lockJoinToken,
  useJoinToken,
  type JoinToken,
} from '../../store/host/join-token.ts'
import { findMachine } from '../../store/machine/machine.ts'
import type { Actor } from '../app.ts'

/** The operator's own account. Its machines have no supplier. */
const HOUSE = 'operator'
const MAX_JOIN_TOKENS = 1_000
/** Random names to try before a longer one is used. */
const MAX_NAME_TRIES = 8

/** The supplier of an account's hosts; null: the operator. */
export function supplierOf(actor: Pick<Actor, 'accountId'>): string | null {
  return actor.accountId === HOUSE ? null : actor.accountId
}

export async function createJoinToken(
  tx: Tx,
  actor: Actor,
  request: { uses: number; expiresInHours: number },
): Promise<Result<{ token: JoinToken; text: string }>> {
  const account = await lockAccount(tx, actor.accountId)
  const supplierId = supplierOf(actor)
  if (supplierId !== null && (account === undefined || account.platform_fee_bp === null)) {
    return fail('not_a_supplier')
  }
  const material = makeJoinToken()
  const expiresAt = addMs(tx.clock.now(), request.expiresInHours * HOUR_MS)
  const token = await insertJoinToken(tx, material, {
    accountId: actor.accountId,
    supplierId,
    uses: request.uses,
    expiresAt,
  })
  if ((await countJoinTokens(tx, actor.accountId)) > MAX_JOIN_TOKENS) {
    return fail('quota_exceeded', { quota: `${MAX_JOIN_TOKENS} join tokens` })
  }
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'join_token.create',
    accountId: actor.accountId,
    subject: `join_token:${token.id}`,
    detail: { uses: request.uses, expiresAt: formatInstant(expiresAt) },
  })
  return ok({ token, text: material.text })
}

export async function revokeJoinToken(tx: Tx, actor: Actor, id: string): Promise<Result<void>> {
  if (!(await deleteJoinToken(tx, actor.accountId, id))) {
    return fail('join_token_not_found')
  }
  await writeAudit(tx, {
    actor: actor.keyId,
    action: 'join_token.revoke',
    accountId: actor.accountId,
    subject: `join_token:${id}`,
  })
  return ok(undefined)
}

export interface JoinRequest {
  readonly token: string
  readonly publicKey: string
  readonly name?: string | undefined
  readonly offer: HostOffer
}

/** The host's id. */
export async function joinHost(tx: Tx, request: JoinRequest): Promise<Result<string>> {
  const { publicKey, offer } = request
  const token = await findToken(tx, request.token)
  if (token === undefined) return tokenRefused()
  if (!isEd25519(publicKey)) return failField(['publicKey'], 'bad_public_key')
  if (offer.offering === 'bare-metal') {
    return failField(['offer', 'offering'], 'bare_metal_needs_ssh')
  }
  const fault = findOfferFault(offer)
  if (fault !== undefined) return failField(['offer', ...fault.path], 'offer_not_sellable', { message: fault.message })
  const existingHost = await lockHost(tx, { publicKey })
  if (existingHost !== undefined) return joinAgain(tx, existingHost, token, offer)
  if (token.uses_left < 1) return tokenRefused()
  const joined = await insertNamed(tx, { ...request, supplierId: token.supplier_id })
  if (!joined.ok) return joined
  await useJoinToken(tx, token.id)
  await writeJoin(tx, token, 'host.join', joined.value, offer)
  return joined
}

async function findToken(tx: Tx, text: string): Promise<JoinToken | undefined> {
  const hash = hashJoinToken(text)
  const token = hash === undefined ? undefined : await lockJoinToken(tx, hash)
  if (token === undefined || token.expires_at <= tx.clock.now()) return undefined
  const account = await findAccount(tx.db, token.account_id)
  return account === undefined || account.suspended_at !== null ? undefined : token
}

function tokenRefused(): Failure {
  return fail('join_token_refused')
}

/** Checks only the format: the machine proves that it has the private key when it connects. */
function isEd25519(publicKey: string): boolean {
  if (Buffer.from(publicKey, 'base64url').toString('base64url') !== publicKey) return false
  try {
    createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: publicKey }, format: 'jwk' })
    return true
  } catch {
    return false
  }
}

/** A used-up token returns the id of a machine that joined with it, and changes nothing. */
async function joinAgain(tx: Tx, host: HostRow, token: JoinToken, offer: HostOffer): Promise<Result<string>> {
  if (host.supplier_id !== token.supplier_id) {
    return failField(['publicKey'], 'key_in_use')
  }
  const machine = await findMachine(tx.db, host.id)
  if (machine !== undefined && machine.offering !== offer.offering) {
    return failField(['offer', 'offering'], 'offering_changed', { host: host.id, offering: machine.offering })
  }
  if (token.uses_left < 1) return host.state === 'left' ? tokenRefused() : ok(host.id)
  await updateOffer(tx, host.id, offer)
  if (host.state === 'left') {
    await useJoinToken(tx, token.id)
    await setHostState(tx, host.id, 'ready', null)
    await writeJoin(tx, token, 'host.rejoin', host.id, offer)
  }
  return ok(host.id)
}

async function insertNamed(tx: Tx, host: JoinRequest & { supplierId: string | null }): Promise<Result<string>> {
  const { name, publicKey, offer, supplierId } = host
  const names =
    name === undefined
      ? [...Array.from({ length: MAX_NAME_TRIES }, randomName), `${randomName()}-${randomName()}`]
      : [name]
  for (const id of names) {
    if (await isNameTaken(tx.db, id)) continue
    if (await insertHost(tx, { id, driver: 'host', supplierId, publicKey, offer })) return ok(id)
    // A concurrent request of the same machine was first.
    const now = await lockHost(tx, { publicKey })
    if (now !== undefined) return ok(now.id)
  }
  return failField(['name'], 'name_in_use', { name: names.at(-1) ?? '' })
}

async function writeJoin(tx: Tx, token: JoinToken, action: AuditAction, id: string, offer: HostOffer): Promise<void> {
  await writeAudit(tx, {
    actor: token.id,
    action,
    accountId: token.account_id,
    subject: `host:${id}`,
    detail: { offering: offer.offering, region: offer.region, gpus: `${offer.gpusTotal} ${offer.gpuModel}` },
  })
}

/** Changes a host for its owner. A host that has left comes back only by joining again. */
export async function changeSuppliedHost(
  tx: Tx,
  actor: Actor,
  id: string,
  to: 'ready' | 'draining' | 'left',
): Promise<Result<HostRecord>> {
  const host = await lockHost(tx, { id })
  if (host === undefined || host.supplier_id !== supplierOf(actor)) return noHost()
  const moved = await moveHost(tx, id, to)
  if (!moved.ok) return moved
  if (host.state !== to) {
    await writeAudit(tx, {
      actor: actor.keyId,
      action: 'host.move',
      accountId: actor.accountId,
      subject: `host:${id}`,
      detail: { from: host.state, to },
    })
  }
  return readRecord(tx, id)
}

export interface MetalHostInput {
  readonly id: string
  readonly offer: HostOffer
  readonly address: HostAddress
  /** Sealed. */
  readonly access: string
}

/** Adds a machine over SSH. It goes on sale after the server has checked it. */
export async function addMetalHost(tx: Tx, by: string, host: MetalHostInput): Promise<Result<HostRecord>> {
  const fault = findOfferFault(host.offer)
  if (fault !== undefined) return failField(fault.path, 'offer_not_sellable', { message: fault.message })
  const existingHost = await lockHost(tx, { id: host.id })
  if (existingHost?.state === 'left' && isReachedOverSsh(existingHost)) {
    await replaceMetalHost(tx, host)
  } else if (
    (await isNameTaken(tx.db, host.id)) ||
    !(await insertHost(tx, { ...host, driver: 'private-cloud', supplierId: null }))
  ) {
    return failField(['id'], 'name_in_use', { name: host.id })
  }
  const { region, gpusTotal, gpuModel } = host.offer
  await writeAudit(tx, {
    actor: by,
    action: 'host.add',
    subject: `host:${host.id}`,
    detail: { region, gpus: `${gpusTotal} ${gpuModel}`, hostname: host.address.hostname },
  })
  return readRecord(tx, host.id)
}

export type HostAction = 'drain' | 'resume' | 'quarantine' | 'release' | 'remove'

export async function changeHost(
  tx: Tx,
  actor: Actor,
  id: string,
  change: { action: HostAction; reason: string },
): Promise<Result<HostRecord>> {
  const host = await lockHost(tx, { id })
  if (host === undefined) return noHost()
  const acted = await act(tx, host, change)
  if (!acted.ok) return acted
  await writeAudit(tx, {
    actor: actor.keyId,
    action: `host.${change.action}`,
    subject: `host:${id}`,
    reason: change.reason,
    detail: { from: host.state },
  })
  return readRecord(tx, id)
}

async function act(
  tx: Tx,
  host: HostRow,
  { action, reason }: { action: HostAction; reason: string },
): Promise<Result<unknown>> {
  switch (action) {
    case 'drain':
      return moveHost(tx, host.id, 'draining', 'operator')
    case 'resume':
      return moveHost(tx, host.id, 'ready', 'operator')
    case 'remove':
      return removeHost(tx, host.id, reason)
    case 'quarantine':
      if (host.state === 'left') return fail('host_removed')
      return ok(await setHostState(tx, host.id, 'quarantined', reason))
    case 'release':
      if (host.state !== 'quarantined') {
        return fail('host_not_quarantined', { state: host.state })
      }
      // Bare metal is cleaned and checked before it goes on sale, unless it has a tenant, who stays. A host with an
      // agent cleans up after each tenant itself.
      return ok(
        await setHostState(
          tx,
          host.id,
          !isReachedOverSsh(host) || (await hasTenants(tx.db, host.id)) ? 'ready' : 'cleaning',
          null,
        ),
      )
  }
}

function noHost(): Failure {
  return fail('host_not_found')
}

async function readRecord(tx: Tx, id: string): Promise<Result<HostRecord>> {
  const record = await findHostRecord(tx.db, id)
  return record === undefined ? noHost() : ok(record)
}
