/** Trial credit: given with the first card that a person pays with or saves, once per person, card and account. */
import { randomId } from '../../base/id.ts'
import { addMs, DAY_MS } from '../../base/instant.ts'
import { formatUsd } from '../../base/money.ts'
import type { Card } from '../../domain/processor.ts'
import { findPerson } from '../../store/account/person.ts'
import { isInDebt } from '../../store/ledger/standing.ts'
import { hasTrial, insertGrant } from '../../store/payment/credit-grant.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import type { Actor, App, Trial } from '../app.ts'
import { announceMoney } from './announce-money.ts'

/** A card without a fingerprint could be any card, and a person without a proved address anybody: neither gets a trial. */
export async function giveTrial(
  { trial }: App,
  tx: Tx,
  to: { readonly accountId: string; readonly personId: string | null; readonly card: Card | null },
): Promise<boolean> {
  const { accountId, personId, card } = to
  const cardFingerprint = card?.fingerprint ?? null
  if (trial === undefined || personId === null || cardFingerprint === null) return false
  const person = await findPerson(tx.db, personId)
  if (person === undefined || person.email_verified_at === null || person.disabled_at !== null) return false
  // The debt would be repaid with it.
  if (await isInDebt(tx.db, accountId)) return false
  const expiresAt = addMs(tx.clock.now(), trial.days * DAY_MS)
  const grant = { id: randomId('grant'), accountId, kind: 'trial', amount: trial.amount } as const
  const posting = { memo: 'Trial credit', actor: null, reason: null }
  if (!(await insertGrant(tx, { ...grant, personId, cardFingerprint, expiresAt }, posting))) return false
  await announceMoney(tx, accountId, formatUsd(trial.amount), 'credit')
  return true
}

/** The trial of this server as the actor sees it. undefined: there is none. */
export async function readTrial(
  { trial, processor }: App,
  db: Db,
  { accountId, personId }: Actor,
): Promise<(Trial & { readonly isGiven: boolean }) | undefined> {
  if (trial === undefined || processor === undefined) return undefined
  return { ...trial, isGiven: await hasTrial(db, { accountId, personId }) }
}
