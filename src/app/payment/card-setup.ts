/**
 * Saves a card without a payment: a row, and after its commit a page of the processor on which the customer enters the card.
 * As with payments, only what the processor says counts, and every step can be repeated.
 */
import { randomId } from '../../base/id.ts'
import { addMs, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { clientNetworkOf } from '../../base/net/client-network.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { compare } from '../../domain/difference.ts'
import {
  CHECKOUT_MS,
  CREATE_WITHIN_MS,
  nextLook,
  ProcessorError,
  type Checkout,
  type Processor,
} from '../../domain/processor.ts'
import { lockAccount } from '../../store/account/account.ts'
import * as store from '../../store/payment/card-setup.ts'
import { saveCard } from '../../store/payment/saved-card.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import type { Actor, App } from '../app.ts'
import { customerOf } from './advance-payment.ts'
import { refuseBlocked } from './decline.ts'
import { giveTrial } from './trial.ts'

/** `address`: that it is asked from. undefined: unknown. */
export async function createCardSetup(
  app: App,
  tx: Tx,
  actor: Actor,
  address: string | undefined,
): Promise<Result<store.CardSetup>> {
  const { processor } = app
  if (processor === undefined) return fail('payments_off')
  await lockAccount(tx, actor.accountId)
  const network = address === undefined ? null : clientNetworkOf(address)
  const refused = await refuseBlocked(tx.db, tx.clock, { accountId: actor.accountId, network })
  if (refused !== undefined) return refused
  if ((await store.countOpenSetups(tx, actor.accountId)) >= limits.openCheckouts) return fail('too_many_open_payments')
  const id = randomId('setup')
  const now = tx.clock.now()
  await store.insertCardSetup(tx, {
    id,
    accountId: actor.accountId,
    personId: actor.personId,
    network,
    isLive: processor.isLive,
    dueAt: nextLook(now, 1),
    expiresAt: addMs(now, CHECKOUT_MS),
  })
  const setup = await store.findCardSetup(tx.db, id)
  return setup === undefined ? fail('card_setup_not_found') : ok(setup)
}

/** Creates the page now, since the customer waits for it. If that fails, the loop tries again. */
export async function openCardSetup(app: App, id: string): Promise<store.CardSetup | undefined> {
  const { processor, database } = app
  const setup = await store.findCardSetup(database.db, id)
  if (setup === undefined || processor === undefined || setup.session_id !== null) return setup
  try {
    await advanceCardSetup(app, processor, setup)
  } catch (error) {
    app.warn?.(error, 'a page to save a card on could not be created; it is tried again')
  }
  return store.findCardSetup(database.db, id)
}

export async function readCardSetup(app: App, actor: Actor, id: string): Promise<Result<store.CardSetup>> {
  const setup = await store.findCardSetup(app.database.db, id, actor.accountId)
  return setup === undefined ? fail('card_setup_not_found') : ok(setup)
}

/** Returns when to look again. null: it has ended. Throws what is worth trying again. */
export async function advanceCardSetup(
  app: App,
  processor: Processor,
  setup: store.CardSetup,
): Promise<Instant | null> {
  if (setup.state === 'done' || setup.is_live !== processor.isLive) return null
  if (setup.session_id === null) return openSession(app, processor, setup)
  const checkout = await processor.readCheckout(setup.session_id)
  if (checkout === undefined) return end(app, setup.id, 'failed', 'the processor does not know its session')
  if (checkout.status === 'expired') return end(app, setup.id, 'expired', null)
  if (checkout.status !== 'complete') return nextLook(app.clock.now(), setup.attempts + 1)
  const difference = differenceOf(setup, checkout)
  if (difference !== undefined) return end(app, setup.id, 'failed', difference)
  await transact(app.database, async (tx) => {
    const locked = await store.lockCardSetup(tx, setup.id)
    if (locked === undefined || locked.state === 'done') return
    const { account_id: accountId, person_id: personId, is_live: isLive } = locked
    await store.endCardSetup(tx, locked.id, 'done', null)
    if (checkout.card === null) return
    await saveCard(tx, accountId, isLive, checkout.card)
    await giveTrial(app, tx, { accountId, personId, card: checkout.card })
  })
  return null
}

async function openSession(app: App, processor: Processor, setup: store.CardSetup): Promise<Instant | null> {
  const now = app.clock.now()
  if (now - setup.created_at > CREATE_WITHIN_MS) return end(app, setup.id, 'expired', null)
  try {
    const customerId = await customerOf(app, processor, setup.account_id)
    const session = await processor.createCardSetup({ id: setup.id, customerId, expiresAt: setup.expires_at })
    await store.saveSetupSession(app.database.db, setup.id, { ...session, customerId })
    return nextLook(now, setup.attempts + 1)
  } catch (error) {
    if (error instanceof ProcessorError && error.isFinal) return end(app, setup.id, 'failed', error.message)
    throw error
  }
}

/** Only a session that matches in everything saves a card. */
function differenceOf(setup: store.CardSetup, checkout: Checkout): string | undefined {
  return (
    compare('mode', checkout.mode, 'setup') ??
    compare('live', checkout.isLive, setup.is_live) ??
    compare('customer', checkout.customerId, setup.customer_id) ??
    compare('reference', checkout.reference, setup.id)
  )
}

async function end(app: App, id: string, state: 'failed' | 'expired', failure: string | null): Promise<null> {
  await transact(app.database, (tx) => store.endCardSetup(tx, id, state, failure))
  return null
}
