/** The use of rentals' GPUs and machines over HTTP. */
import { MINUTE_MS, SECOND_MS, type Instant } from '../../base/instant.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { failField, ok, type Result } from '../../contract/result.ts'
import type { App } from '../../app/app.ts'
import { findAnyRental } from '../../app/rental/own-rental.ts'
import { rangeOf, readHistory, readSparklines } from '../../app/rental/rental-metrics.ts'
import { findOwnRentals, type Rental } from '../../store/rental/rental.ts'
import { readUse } from './rental-use.ts'
import type { Handlers } from '../http/handler.ts'

type History = NonNullable<ResponseOf<Api['getRentalMetrics']>['history']>

export const rentalMetricsHandlers = {
  getRentalMetrics: async (app, { actor, params, query }) => {
    const rental = await findAnyRental(app.database.db, actor, params.id)
    if (!rental.ok) return rental
    const use = (await readUse(app, [rental.value])).get(rental.value.id)
    const gpus = use?.gpus ?? []
    const isMeasured = gpus.length > 0 || (use?.machines.length ?? 0) > 0
    const latest = {
      rentalId: rental.value.id,
      gpus,
      machines: use?.machines ?? [],
      reason: isMeasured ? null : whyUnmeasured(app, rental.value),
      simulated: use?.simulated ?? false,
    }
    if (query.from === undefined) return ok(latest)
    const history = await historyOf(app, rental.value, { ...query, from: query.from })
    return history.ok ? ok({ ...latest, history: history.value }) : history
  },

  listRentalMetrics: async (app, { actor, query }) => {
    const rentals = await findOwnRentals(app.database.db, actor.accountId, query.ids.split(','))
    const { from, sparklines } = await readSparklines(app, rentals)
    return ok({
      from,
      stepSeconds: MINUTE_MS / SECOND_MS,
      rentals: sparklines.map(({ rental, simulated, utilization }) => ({
        rentalId: rental.id,
        name: rental.name,
        simulated,
        gpuUtilizationPercent: [...utilization],
      })),
    })
  },
} satisfies Partial<Handlers>

async function historyOf(
  app: App,
  rental: Rental,
  { from, to, step }: { from: Instant; to?: Instant | undefined; step?: number | undefined },
): Promise<Result<History>> {
  const range = rangeOf({ from, to, stepSeconds: step }, app.clock.now())
  if (range === undefined) return failField(['from'], 'empty_time_range')
  const series = await readHistory(app, rental, range)
  return ok({
    from: range.from,
    to: range.to,
    stepSeconds: range.stepMs / SECOND_MS,
    series: series.map(({ metric, node, gpu, average, maximum }) => ({
      metric,
      machineIndex: node,
      gpuIndex: gpu,
      average: [...average],
      maximum: [...maximum],
    })),
  })
}

function whyUnmeasured(app: App, rental: Rental): string {
  const traits = app.drivers.get(rental.driver)?.traits
  if (rental.released_at !== null) return 'The rental has ended'
  if (traits?.simulated === true) return 'The simulated machine is not running'
  if (traits?.metrics !== true) return 'The provider of this machine does not report GPU metrics'
  return 'The host has not reported any metrics yet'
}
