/** Automatic top-ups and saved cards over HTTP. */
import { readAutoTopUp, setAutoTopUp, stopAutoTopUp } from '../../app/payment/auto-top-up.ts'
import { deleteCard, openPortal, readCards } from '../../app/payment/saved-card.ts'
import type { App } from '../../app/app.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import type { SavedCard } from '../../store/payment/saved-card.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'
import { mapOk } from './billing.ts'

export const autoTopUpHandlers = {
  getAutoTopUp: async (app, { actor }) => ok(await autoTopUpOnWire(app, actor.accountId)),

  setAutoTopUp: async (app, { actor, body, address }) => {
    const order = {
      below: body.belowUsd,
      amount: body.amountUsd,
      cap: body.monthlyCapUsd,
      cardId: body.cardId,
      address,
    }
    const set = await transact(app.database, (tx) => setAutoTopUp(app, tx, actor, order))
    return set.ok ? ok(await autoTopUpOnWire(app, actor.accountId)) : set
  },

  turnOffAutoTopUp: async (app, { actor }) => {
    await transact(app.database, (tx) => stopAutoTopUp(tx, actor))
    return ok(await autoTopUpOnWire(app, actor.accountId))
  },

  listSavedCards: async (app, { actor }) => ok({ cards: (await readCards(app, actor)).map(cardOnWire) }),

  removeSavedCard: async (app, { actor, params }) =>
    mapOk(await deleteCard(app, actor, params.id), () => ({ message: 'Card removed' })),

  openCardPortal: async (app, { actor }) => mapOk(await openPortal(app, actor), (url) => ({ url })),
} satisfies Partial<Handlers>

async function autoTopUpOnWire(app: App, accountId: string): Promise<ResponseOf<Api['getAutoTopUp']>> {
  const { wish, card, charged } = await readAutoTopUp(app, accountId)
  return {
    enabled: wish?.is_on ?? false,
    belowUsd: wish?.below_nano ?? null,
    amountUsd: wish?.amount_nano ?? null,
    monthlyCapUsd: wish?.cap_nano ?? null,
    card: card === undefined ? null : cardOnWire(card),
    chargedThisMonthUsd: charged,
    failures: wish?.failures ?? 0,
    offReason: wish?.off_reason ?? null,
    lastAttemptAt: wish?.attempted_at ?? null,
    pausedUntil: wish?.paused_until ?? null,
    consent: wish === undefined ? null : { text: wish.consent_text, personId: wish.consent_by, at: wish.consent_at },
  }
}

function cardOnWire(card: SavedCard): ResponseOf<Api['listSavedCards']>['cards'][number] {
  return {
    id: card.id,
    brand: card.brand,
    last4: card.last4,
    expMonth: card.exp_month,
    expYear: card.exp_year,
    savedAt: card.saved_at,
  }
}
