/** Accounts at other clouds over HTTP, for operators. */
import type { App } from '../../app/app.ts'
import { addProvider, changeProvider, removeProvider, rotateProvider, tryProvider } from '../../app/supply/provider.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { idOfTag, tagPrefix } from '../../domain/rental.ts'
import type { ProviderDriver } from '../../drivers/driver.ts'
import { transact } from '../../store/platform/database.ts'
import {
  countProviderRentals,
  findProviderAccount,
  listProviderAccounts,
  type ProviderAccount,
  type ProviderAccountCosts,
  type ProviderRules,
} from '../../store/provider/provider-account.ts'
import { listOfferSales, type OfferSale } from '../../store/provider/provider-offer.ts'
import type { Handlers } from '../http/handler.ts'

const CALL_MS = 60_000

type Wire = ResponseOf<Api['addProvider']>
type OffersOnWire = ResponseOf<Api['listProviderOffers']>['offers']

export const providerHandlers = {
  listProviders: async (app) => {
    const accounts = await listProviderAccounts(app.database.db, app.clock.now())
    const providers = await Promise.all(accounts.map((account) => providerOnWire(app, account)))
    return ok({ providers, kinds: [...(app.providers?.kinds ?? [])] })
  },

  addProvider: async (app, { actor, body }) => {
    const { name, provider, credentials, baseUrl } = body
    const result = await transact(app.database, (tx) =>
      addProvider(app, tx, actor, { name, provider, credentials, baseUrl, rules: rulesOf(body) }),
    )
    if (result.ok) await app.providers?.refresh()
    return readWire(app, result)
  },

  tryProvider: async (app, { body }) => {
    const { provider, credentials, baseUrl, regions = {} } = body
    const tried = await tryProvider(app, { provider, credentials, baseUrl, regions })
    if (!tried.ok) return tried
    const { checks, offers } = tried.value
    return ok({ ok: checks.every(({ result }) => result !== 'failed'), checks: [...checks], offers: [...offers] })
  },

  changeProvider: async (app, { actor, params, body }) => {
    const change = { rules: rulesOf(body), suspended: body.suspended }
    return readWire(app, await transact(app.database, (tx) => changeProvider(tx, actor, params.name, change)))
  },

  rotateProvider: async (app, { actor, params, body }) =>
    readWire(app, await transact(app.database, (tx) => rotateProvider(app, tx, actor, params.name, body.credentials))),

  checkProvider: async (app, { params }) => {
    const checks = await askProvider(app, params.name, (driver, signal) => driver.check(params.name, signal))
    return checks.ok
      ? ok({ ok: checks.value.every(({ result }) => result !== 'failed'), checks: checks.value })
      : checks
  },

  listProviderOffers: async (app, { params }) => {
    const offers = await askProvider(app, params.name, (driver, signal) => driver.offers(params.name, signal))
    if (!offers.ok) return offers
    const sales = await listOfferSales(app.database.db, params.name)
    return ok({
      offers: offers.value.map((offer) => ({ ...offer, sale: saleOnWire(sales.get(offer.offerId ?? '')) })),
    })
  },

  listProviderResources: async (app, { params, query }) => {
    const prefix = tagPrefix(app.installationId)
    const listed = await askProvider(app, params.name, (driver, signal) =>
      driver.resources(params.name, prefix, signal),
    )
    if (!listed.ok) return listed
    const resources = listed.value.map(({ what, id, tag, state }) => {
      const rentalId = idOfTag(app.installationId, 'rental', tag) ?? null
      return { what, id, state: state ?? null, rentalId }
    })
    const { rentalId: filter } = query
    return ok({ resources: resources.filter(({ rentalId }) => filter === undefined || rentalId === filter) })
  },

  removeProvider: async (app, { actor, params }) => {
    const removed = await transact(app.database, (tx) => removeProvider(app, tx, actor, params.name))
    return removed.ok ? ok({ name: removed.value }) : removed
  },
} satisfies Partial<Handlers>

function saleOnWire(sale: OfferSale | undefined): OffersOnWire[number]['sale'] {
  if (sale === undefined) return null
  const { price, free, rented, seenAt } = sale
  return { pricePerHourUsd: price, free, rented, seenAt }
}

/** Calls the driver of the account and turns its errors into failures. */
async function askProvider<T>(
  app: App,
  name: string,
  ask: (driver: ProviderDriver, signal: AbortSignal) => Promise<T | undefined>,
): Promise<Result<T>> {
  const account = await findProviderAccount(app.database.db, name)
  if (account === undefined || account.removed_at !== null) return fail('provider_not_found', { name })
  await app.providers?.refresh()
  const driver = app.drivers.get(account.driver)?.providers
  if (driver === undefined) return fail('provider_not_found', { name })
  try {
    const answer = await ask(driver, AbortSignal.timeout(CALL_MS))
    return answer === undefined ? fail('provider_not_found', { name }) : ok(answer)
  } catch (error) {
    return fail('provider_unreachable', { name, message: error instanceof Error ? error.message : String(error) })
  }
}

async function readWire(app: App, changed: Result<ProviderAccount>): Promise<Result<Wire>> {
  if (!changed.ok) return changed
  const accounts = await listProviderAccounts(app.database.db, app.clock.now(), changed.value.driver)
  const account = accounts.find(({ id }) => id === changed.value.id)
  return account === undefined
    ? fail('provider_not_found', { name: changed.value.name })
    : ok(await providerOnWire(app, account))
}

async function providerOnWire(app: App, account: ProviderAccountCosts): Promise<Wire> {
  const kind = app.providers?.kinds.find(({ provider }) => provider === account.driver)
  const pausedUntil = app.drivers.get(account.driver)?.providers?.pausedUntil(account.name) ?? null
  return {
    name: account.name,
    provider: account.driver as Wire['provider'],
    title: kind?.title ?? account.driver,
    baseUrl: account.base_url,
    state: account.suspended_at === null ? account.health : 'suspended',
    stateReason: account.health_reason,
    stateSince: account.suspended_at ?? account.health_since,
    answeredAt: account.answered_at,
    pausedUntil,
    regions: account.regions as Wire['regions'],
    markupPercentage: account.markup_bp === null ? null : account.markup_bp / 100,
    floorPerGpuHourUsd: account.floor_nano_per_gpu_hour,
    fixedPerGpuHourUsd: account.fixed_nano_per_gpu_hour,
    sellsBelowCost: account.sells_below_cost,
    monthlyCapUsd: account.monthly_cap_nano,
    preference: account.preference,
    costThisMonthUsd: account.month_nano,
    rentals: await countProviderRentals(app.database.db, account),
    createdAt: account.created_at,
  }
}

type RulesOnWire = Partial<
  Pick<
    Wire,
    | 'regions'
    | 'markupPercentage'
    | 'floorPerGpuHourUsd'
    | 'fixedPerGpuHourUsd'
    | 'sellsBelowCost'
    | 'monthlyCapUsd'
    | 'preference'
  >
>

/** Returns only the rules that the request contains. */
function rulesOf(body: { readonly [K in keyof RulesOnWire]: RulesOnWire[K] | undefined }): Partial<ProviderRules> {
  const { regions, markupPercentage: markup, floorPerGpuHourUsd: floor, fixedPerGpuHourUsd: fixed } = body
  const { sellsBelowCost, monthlyCapUsd: cap, preference } = body
  return {
    ...(regions === undefined ? {} : { regions }),
    ...(markup === undefined ? {} : { markup_bp: markup === null ? null : Math.round(markup * 100) }),
    ...(floor === undefined ? {} : { floor_nano_per_gpu_hour: floor }),
    ...(fixed === undefined ? {} : { fixed_nano_per_gpu_hour: fixed }),
    ...(sellsBelowCost === undefined ? {} : { sells_below_cost: sellsBelowCost }),
    ...(cap === undefined ? {} : { monthly_cap_nano: cap }),
    ...(preference === undefined ? {} : { preference }),
  }
}
