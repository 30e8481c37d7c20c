/** Economics of managed deployments: exact sums of the ledger beside what replicas did for them. Read-only. */
import { addMs, DAY_MS } from '../../base/instant.ts'
import { nanoUsdOf, sumUsd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { ok, type Result } from '../../contract/result.ts'
import {
  advisePrice,
  unitPricesOf,
  type PriceAdvice,
  type ServingUsage,
  type UnitPrices,
} from '../../domain/economics.ts'
import type { ModelKind } from '../../domain/inference.ts'
import { readSnapshot } from '../../store/ledger/billing.ts'
import type { DayRange } from '../../store/ledger/cost.ts'
import { readModels, sumModelRevenue, sumServing, type ModelUsage } from '../../store/serving/economics.ts'
import { listManaged, type ManagedDeployment } from '../../store/serving/managed-deployment.ts'
import { pricesOf, type Model } from '../../store/model/model.ts'
import type { Actor, App } from '../app.ts'
import { readRange, type RangeInput } from '../money/cost.ts'
import { findDeployment } from './managed-deployment.ts'

const DEFAULT_DAYS = 30

export interface DeploymentUsage extends DayRange {
  readonly usage: ServingUsage
  /** null: the deployment was deleted. */
  readonly targetOutstanding: number | null
}

const nothing: ServingUsage = {
  requests: 0n,
  inputUnits: 0n,
  cachedUnits: 0n,
  outputUnits: 0n,
  requestMs: 0n,
  busyMs: 0n,
  paidMs: 0n,
  gpuCost: zeroUsd,
}

export async function readDeploymentUsage(
  app: App,
  actor: Actor,
  id: string,
  input: RangeInput,
): Promise<Result<DeploymentUsage>> {
  const range = readRange(app, input, (to) => addMs(to, -(DEFAULT_DAYS - 1) * DAY_MS))
  if (!range.ok) return range
  return readSnapshot(app.database, async (db) => {
    const deployment = await findDeployment(db, actor, id)
    if (!deployment.ok) return deployment
    const [usage = nothing] = await sumServing(db, { deploymentId: id }, range.value)
    return ok({ ...range.value, usage, targetOutstanding: deployment.value.settings.scaling.targetOutstanding })
  })
}

export interface ModelEconomics extends DeploymentUsage {
  readonly model: string
  readonly kind: ModelKind | null
  readonly deploymentId: string | null
  readonly revenue: NanoUsd
  readonly margin: NanoUsd
  readonly supplier: NanoUsd
  readonly vendorCost: NanoUsd
  readonly costBasis: CostBasis
  readonly prices: UnitPrices | null
  readonly advice: PriceAdvice | null
}

/** The source of the cost of a model's GPUs: prices of rentals, bills of other clouds, or some of each. */
export type CostBasis = 'rental_price' | 'vendor_price' | 'mixed'

export interface Economics extends DayRange {
  readonly revenue: NanoUsd
  readonly gpuCost: NanoUsd
  readonly margin: NanoUsd
  readonly models: readonly ModelEconomics[]
}

/** Reads the economics of the models that all customers can call. */
export async function readEconomics(
  app: App,
  input: RangeInput & { readonly model?: string | undefined; readonly utilizationBp?: number | undefined },
): Promise<Result<Economics>> {
  const range = readRange(app, input, (to) => addMs(to, -(DEFAULT_DAYS - 1) * DAY_MS))
  if (!range.ok) return range
  return readSnapshot(app.database, async (db) => {
    const used = await sumServing(db, { model: input.model }, range.value)
    const names = used.flatMap(({ model, models }) => [model, ...models])
    const revenues = await sumModelRevenue(db, names, range.value)
    const modelsByName = new Map((await readModels(db, names)).map((one) => [one.name, one]))
    const deployed = new Map((await listManaged(db)).map((one) => [one.model, one]))
    const models = used.map((one) =>
      economicsOf(
        one,
        range.value,
        revenues,
        modelsByName.get(one.model),
        deployed.get(one.model),
        input.utilizationBp,
      ),
    )
    const revenue = sumUsd(models.map((one) => one.revenue))
    const gpuCost = sumUsd(models.map((one) => one.usage.gpuCost))
    return ok({ ...range.value, revenue, gpuCost, margin: nanoUsdOf(revenue - gpuCost), models })
  })
}

function economicsOf(
  used: ModelUsage,
  range: DayRange,
  revenues: ReadonlyMap<string, NanoUsd>,
  model: Model | undefined,
  deployed: ManagedDeployment | undefined,
  utilizationBp: number | undefined,
): ModelEconomics {
  const names = new Set([used.model, ...used.models])
  const revenue = sumUsd([...names].map((name) => revenues.get(name) ?? zeroUsd))
  const usage = { ...used, gpuCost: houseCost(used) }
  const prices = model === undefined ? null : unitPricesOf(model.kind, pricesOf(model))
  return {
    ...range,
    model: used.model,
    kind: model?.kind ?? null,
    deploymentId: deployed?.id ?? null,
    revenue,
    margin: nanoUsdOf(revenue - usage.gpuCost),
    supplier: used.supplier,
    vendorCost: used.vendorCost,
    costBasis: costBasis(used),
    usage,
    targetOutstanding: deployed?.settings.scaling.targetOutstanding ?? null,
    prices,
    advice: prices === null ? null : advisePrice(usage, prices, utilizationBp),
  }
}

/**
 * A machine of another cloud costs the house what that cloud bills. Its price as a rental is paid by the house to
 * itself, and is no cost.
 */
function houseCost({ gpuCost, vendorCharged, vendorCost }: ModelUsage): NanoUsd {
  return nanoUsdOf(gpuCost - vendorCharged + vendorCost)
}

function costBasis({ gpuCost, vendorCharged, vendorCost }: ModelUsage): CostBasis {
  if (vendorCost === 0n && vendorCharged === 0n) return 'rental_price'
  return gpuCost === vendorCharged ? 'vendor_price' : 'mixed'
}
