/** Rental options, discounts for terms and quotes over HTTP. */
import { ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import type { rentalQuoteQuery } from '../../contract/commitment.ts'
import type { RentalType } from '../../contract/rental.ts'
import type { Region } from '../../contract/region.ts'
import type { App } from '../../app/app.ts'
import { quoteOrder } from '../../app/order/order.ts'
import { listRentalOptions, type RentalOption } from '../../app/order/rental-option.ts'
import { quoteDisk } from '../../domain/term.ts'
import { listReserveOptions } from '../../store/machine/price.ts'
import type { Handlers } from '../http/handler.ts'
import type { z } from 'zod'
import { renderOnce } from '../http/json-answer.ts'
import { earlyEndRatesOnWire } from './rental-view.ts'

export const rentalOptionHandlers = {
  listRentalOptions: async (app) => {
    return ok(showOptions(await readOptions(app)))
  },

  listReserveOptions: async (app, { actor }) => ok(await listReserveOptions(app.database.db, actor.accountId)),

  quoteRental: async (app, { actor, query }) => {
    const quote = await quoteOrder(app, actor, query)
    if (!quote.ok) return quote
    const { listPrice, perHour, hold, term } = quote.value
    const option = findOption(await readOptions(app), query)
    const disk =
      option && quoteDisk({ ...option, shareGb: option.nodes[0]?.storageGb ?? 0 }, query.diskGb ?? null, perHour)
    const stoppedPrice = term === null ? (disk?.stoppedPrice ?? null) : null
    return ok({
      costPerHourUsd: perHour,
      originalCostPerHourUsd: listPrice,
      termPeriodDays: term?.days ?? null,
      discountPercentage: term?.percentage ?? 0,
      totalUsd: term?.total ?? null,
      holdUsd: hold,
      diskGb: query.rentalType === 'virtual-machine' ? (disk?.gb ?? null) : null,
      stoppedCostPerHourUsd: stoppedPrice,
      earlyEndRates: earlyEndRatesOnWire(term?.rates ?? []),
    })
  },
} satisfies Partial<Handlers>

async function readOptions(app: App): Promise<readonly RentalOption[]> {
  return app.rentalOptions?.get() ?? listRentalOptions(app)
}

function findOption(
  options: readonly RentalOption[],
  {
    rentalType,
    region,
    gpuType,
    networkType,
    gpuCount,
  }: z.output<typeof rentalQuoteQuery> & { readonly rentalType: RentalType },
): RentalOption | undefined {
  return options.find(
    (one) =>
      one.machineType === rentalType &&
      one.region === region &&
      one.gpuType === gpuType &&
      one.connectionType === networkType &&
      one.gpuCount === gpuCount,
  )
}

type ShownOptions = ResponseOf<Api['listRentalOptions']>

/** Rendered once for each read, since one read serves many requests. */
const renderedOptions = new WeakMap<readonly RentalOption[], ShownOptions>()

function showOptions(options: readonly RentalOption[]): ShownOptions {
  const previous = renderedOptions.get(options)
  if (previous !== undefined) return previous
  const rendered = renderOnce(
    options.map(({ stoppedDiskPerGbMonth: diskPrice, ...option }) => ({
      ...option,
      region: option.region as Region,
      costPerHour: option.costPerHour,
      stoppedDiskUsdPerGbMonth: diskPrice,
      ethernetVariant: option.ethernetVariant ?? undefined,
    })),
  )
  renderedOptions.set(options, rendered)
  return rendered
}
