/** Economics of managed deployments over HTTP. */
import {
  readDeploymentUsage,
  readEconomics,
  type DeploymentUsage,
  type ModelEconomics,
} from '../../app/serving/economics.ts'
import { SECOND_MS } from '../../base/instant.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import {
  MIN_BUSY_MS,
  MIN_REQUESTS,
  percentageOf,
  rateOf,
  unitsOf,
  utilizationBp,
  type PriceAdvice,
  type UnitPrices,
} from '../../domain/economics.ts'
import type { Handlers } from '../http/handler.ts'

type Model = ResponseOf<Api['getEconomics']>['models'][number]

export const economicsHandlers = {
  getDeploymentUsage: async (app, { actor, params, query }) => {
    const usage = await readDeploymentUsage(app, actor, params.id, query)
    if (!usage.ok) return usage
    return ok({ from: usage.value.from, to: usage.value.to, ...usageOnWire(usage.value) })
  },

  getEconomics: async (app, { query }) => {
    const { utilizationPercent, ...filters } = query
    const at = utilizationPercent === undefined ? {} : { utilizationBp: Math.round(utilizationPercent * 100) }
    const economics = await readEconomics(app, { ...filters, ...at })
    if (!economics.ok) return economics
    const { from, to, revenue, gpuCost, margin, models } = economics.value
    return ok({
      from,
      to,
      revenueUsd: revenue,
      gpuCostUsd: gpuCost,
      marginUsd: margin,
      models: models.map(modelOnWire),
    })
  },
} satisfies Partial<Handlers>

function usageOnWire({ usage, targetOutstanding }: DeploymentUsage) {
  const { requests, inputUnits, cachedUnits, outputUnits, requestMs, busyMs, paidMs, gpuCost } = usage
  const perSecond = BigInt(SECOND_MS)
  return {
    requests: Number(requests),
    inputUnits: Number(inputUnits),
    cachedUnits: Number(cachedUnits),
    outputUnits: Number(outputUnits),
    gpuCostUsd: gpuCost,
    paidSeconds: Number(paidMs) / SECOND_MS,
    busySeconds: Number(busyMs) / SECOND_MS,
    utilizationPercent: percentOfBp(utilizationBp(usage)),
    outstandingPerReplica: rateOf(requestMs, paidMs),
    targetOutstanding,
    unitsPerSecond: rateOf(unitsOf(usage), busyMs, perSecond),
    outputUnitsPerSecond: rateOf(outputUnits, busyMs, perSecond),
    unitsPerUsd: rateOf(unitsOf(usage), gpuCost, NANO_PER_USD),
  }
}

const NANO_PER_USD = 1_000_000_000n

function modelOnWire(one: ModelEconomics): Model {
  return {
    model: one.model,
    kind: one.kind,
    deploymentId: one.deploymentId,
    revenueUsd: one.revenue,
    marginUsd: one.margin,
    marginPercent: percentageOf(one.margin, one.revenue),
    ...usageOnWire(one),
    gpuCostBasis: one.costBasis,
    vendorCostUsd: one.vendorCost,
    supplierUsd: one.supplier,
    prices: one.prices === null ? null : pricesOnWire(one.prices),
    advice: one.advice === null ? null : adviceOnWire(one.advice),
  }
}

function pricesOnWire({ input, cached, output }: UnitPrices) {
  return {
    inputUsdPerMillion: input,
    cachedUsdPerMillion: cached,
    outputUsdPerMillion: output,
  }
}

function adviceOnWire(advice: PriceAdvice): NonNullable<Model['advice']> {
  if (advice.kind === 'too_little_measured') {
    const missingMs = Number(MIN_BUSY_MS - advice.busyMs)
    return {
      isMeasured: false,
      neededRequests: Math.max(0, Number(MIN_REQUESTS - advice.requests)),
      neededBusySeconds: Math.max(0, Math.ceil(missingMs / SECOND_MS)),
      utilizationPercent: null,
      blendedUsdPerMillion: null,
      prices: null,
      breakEvenUtilizationPercent: null,
    }
  }
  return {
    isMeasured: true,
    neededRequests: 0,
    neededBusySeconds: 0,
    utilizationPercent: percentOfBp(advice.utilizationBp),
    blendedUsdPerMillion: advice.blended,
    prices: advice.prices === null ? null : pricesOnWire(advice.prices),
    breakEvenUtilizationPercent: percentOfBp(advice.breakEvenBp),
  }
}

function percentOfBp(bp: number | null): number | null {
  return bp === null ? null : bp / 100
}
