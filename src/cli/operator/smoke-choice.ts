/** The machine that a smoke test rents: the cheapest one on sale whose minimum period is within the cap. */
import { MINUTE_MS, SECOND_MS } from '../../base/instant.ts'
import { formatUsdForPeople, maxUsd, usd, type NanoUsd, costOfSpan } from '../../base/money.ts'
import type { Reply } from '../../client/client.ts'
import { affordableMs } from '../../domain/purchase.ts'
import { CliError, exitCodes } from '../kit/shell.ts'

type Provider = Reply<'listProviders'>['providers'][number]
type Kind = Reply<'listProviders'>['kinds'][number]
type Offer = Reply<'listProviderOffers'>['offers'][number]

/** The machine is ended this long before the cap is reached, because ending it takes time. */
const END_MS = 2 * MINUTE_MS
/** No machine starts and accepts a login faster than this. */
const MIN_RUN_MS = 3 * MINUTE_MS

export interface SmokeChoice {
  readonly offer: Offer
  readonly cost: NanoUsd
  /** The price per hour. */
  readonly price: NanoUsd
  /** The maximum time from the order to the end. */
  readonly endsAfterMs: number
}

/** Chooses among the account's offers. Throws with the reason if none is suitable. */
export function chooseOffer(
  account: Pick<Provider, 'name' | 'state' | 'stateReason' | 'sellsBelowCost'>,
  { billing }: Pick<Kind, 'billing'>,
  offers: readonly Offer[],
  cap: NanoUsd,
): SmokeChoice {
  const { name, state } = account
  if (state === 'suspended')
    throw no(`${name} is suspended and takes no orders.`, `To resume it: berth operator providers resume ${name}`)
  const sold = offers.filter(({ unsold, sale }) => unsold === null && sale !== null && sale.free > 0)
  if (sold.length === 0)
    throw no(`${name} has no machine on sale now.`, `To see why: berth operator providers offers ${name}`)
  const priced = sold.flatMap((offer) => {
    const [cost, price] = [usd(offer.costPerHourUsd), offer.sale?.pricePerHourUsd ?? null]
    const pays = price === null ? undefined : usd(price)
    return pays !== undefined && (pays >= cost || account.sellsBelowCost) ? [{ offer, cost, price: pays }] : []
  })
  const [cheapest] = priced.toSorted((a, b) => (a.cost < b.cost ? -1 : a.cost > b.cost ? 1 : 0))
  if (cheapest === undefined)
    throw no(
      `No machine of ${name} has a selling price that pays for it.`,
      `To set one: berth operator providers set ${name} --markup 20`,
    )
  const rules = { incrementMs: billing.incrementSeconds * SECOND_MS, minimumMs: billing.minimumSeconds * SECOND_MS }
  const affordable = affordableMs(cheapest.cost, cap, rules)
  const endsAfterMs = affordable - END_MS
  if (endsAfterMs >= MIN_RUN_MS) return { ...cheapest, endsAfterMs }
  const least = Math.max(rules.minimumMs, rules.incrementMs, END_MS + MIN_RUN_MS)
  const needed = costOfSpan(cheapest.cost, Math.ceil(least / rules.incrementMs) * rules.incrementMs)
  throw no(
    `The cheapest machine of ${name} costs ${formatUsdForPeople(cheapest.cost)}/hr, and a test of it at least ${formatUsdForPeople(needed)}.`,
    `To allow that: --spend-up-to ${formatUsdForPeople(maxUsd(needed, cap)).replace('$', '')}`,
  )
}

function no(message: string, next: string): CliError {
  return new CliError(exitCodes.failed, message, [next])
}
