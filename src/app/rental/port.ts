/** Access to the HTTP ports of a rental: codes for browsers and tokens for programs, both stored as hashes. */
import { randomBytes } from 'node:crypto'
import { randomId, sha256 } from '../../base/id.ts'
import { addMs, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { makePortToken } from '../../base/port-token.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { isLiving } from '../../domain/rental.ts'
import { allHealthy, type WorkloadPort } from '../../domain/workload.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import {
  deletePortToken,
  insertPortCode,
  insertPortToken,
  listPortTokens,
  readPortHealth,
  savePortHealth,
  takePortCode,
  type PortToken,
} from '../../store/rental/port.ts'
import { lockRental, type Rental } from '../../store/rental/rental.ts'
import type { Actor } from '../app.ts'
import { findAnyRental } from './own-rental.ts'
import { recordRentalEvent } from './rental-event.ts'

const CODE_BYTES = 32

export interface OwnPort {
  readonly rental: Rental
  readonly port: WorkloadPort
}

/** An HTTP port of a rental of the actor's account. */
export async function findOwnPort(db: Db, actor: Actor, idOrName: string, port: number): Promise<Result<OwnPort>> {
  const rental = await findAnyRental(db, actor, idOrName)
  if (!rental.ok) return rental
  const httpPort = rental.value.spec.workload?.ports.find((one) => one.port === port && one.protocol === 'http')
  return httpPort === undefined ? fail('port_not_found', { port }) : ok({ rental: rental.value, port: httpPort })
}

/** The code is for one browser, once. */
export async function createPortCode(
  tx: Tx,
  actor: Actor,
  { rental, port }: OwnPort,
): Promise<{ code: string; expiresAt: Instant }> {
  const code = randomBytes(CODE_BYTES).toString('base64url')
  const expiresAt = addMs(tx.clock.now(), limits.portCodeMs)
  await insertPortCode(tx, { hash: sha256(code), rentalId: rental.id, port: port.port, keyId: actor.keyId, expiresAt })
  return { code, expiresAt }
}

/** The id of the key behind a code. undefined: the code is not valid for this port, or not any more. */
export async function redeemPortCode(
  db: Db,
  which: { rentalId: number; port: number },
  code: string,
  now: Instant,
): Promise<string | undefined> {
  return takePortCode(db, { hash: sha256(code), ...which }, now)
}

/** `text` is the token itself, which is not stored. */
export async function createPortToken(
  tx: Tx,
  actor: Actor,
  { rental, port }: OwnPort,
  input: { name: string; expiresAt: Instant | null },
): Promise<Result<{ token: PortToken; text: string }>> {
  if (input.expiresAt !== null && input.expiresAt <= tx.clock.now()) return failField(['expiresAt'], 'time_in_past')
  // Locked, so that concurrent requests are counted one after the other.
  const locked = await lockRental(tx, rental.id)
  if (locked === undefined || !isLiving(locked.status)) {
    return fail('already_terminated', { rentalId: rental.id, status: locked?.status ?? 'Terminated' })
  }
  const held = await listPortTokens(tx.db, rental.id, port.port)
  if (held.length >= limits.portTokens) return fail('too_many_port_tokens', { max: limits.portTokens })
  const secret = makePortToken()
  const token = await insertPortToken(tx, {
    id: randomId('ptk'),
    rentalId: rental.id,
    port: port.port,
    name: input.name,
    hash: secret.hash,
    last4: secret.last4,
    personId: actor.personId,
    expiresAt: input.expiresAt,
  })
  recordRentalEvent(tx, locked, 'rental.port_token_created', { port: port.port, tokenId: token.id, name: token.name })
  return ok({ token, text: secret.text })
}

export async function revokePortToken(tx: Tx, { rental, port }: OwnPort, id: string): Promise<Result<PortToken>> {
  const revoked = await deletePortToken(tx, { rentalId: rental.id, port: port.port, id })
  if (revoked === undefined) return fail('port_token_not_found')
  recordRentalEvent(tx, rental, 'rental.port_token_revoked', { port: port.port, tokenId: id, name: revoked.name })
  return ok(revoked)
}

/** Records a result that differs from the last one. An event tells when all ports answer, and when one stops to. */
export async function notePortHealth(
  tx: Tx,
  { rentalId, port, healthy }: { rentalId: number; port: number; healthy: boolean },
): Promise<void> {
  const rental = await lockRental(tx, rentalId)
  if (rental === undefined || rental.status !== 'Running') return
  const before = await readPortHealth(tx.db, rental)
  await savePortHealth(tx.db, { rentalId, port, healthy, checkedAt: tx.clock.now() })
  const { workload } = rental.spec
  const wasReady = allHealthy(workload, before)
  const isReady = allHealthy(workload, new Map(before).set(port, healthy))
  if (isReady && !wasReady) recordRentalEvent(tx, rental, 'rental.ready')
  if (wasReady && !isReady) recordRentalEvent(tx, rental, 'rental.not_ready', { port })
}
