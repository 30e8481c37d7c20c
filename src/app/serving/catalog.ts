/** Deployments by the name of a model: the catalog, and what its models would cost on the machines that are free now. */
import { nanoUsdOf, usd } from '../../base/money.ts'
import type { CatalogFile } from '../../contract/catalog.ts'
import type { DeploymentSpec, OrderedSpec } from '../../contract/managed-deployment.ts'
import type { RecipeName } from '../../contract/recipe.ts'
import { failField, ok, type Result } from '../../contract/result.ts'
import { builtInCatalog } from '../../domain/built-in-catalog.ts'
import {
  cheapestFit,
  findCatalogModel,
  fitsByGpu,
  gpuCounts,
  gpusFor,
  withCatalogDefaults,
  type CatalogFit,
  type FreeGpus,
  type GpuFit,
} from '../../domain/catalog.ts'
import type { ModelKind } from '../../domain/inference.ts'
import { pricePerHour } from '../../domain/term.ts'
import type { Db } from '../../store/platform/database.ts'
import { listCheapestOfEach } from '../../store/machine/listed-machine.ts'
import type { App } from '../app.ts'

const BUILT_IN = { file: builtInCatalog, source: 'built-in', problem: null } as const

export function catalogOf({ catalog }: Pick<App, 'catalog'>): NonNullable<App['catalog']> {
  return catalog ?? BUILT_IN
}

export interface ResolvedSpec {
  readonly kind: ModelKind
  readonly spec: DeploymentSpec
  /** The id of the model in the catalog. A deployment without a name of its own gets this one. */
  readonly modelId?: string
  readonly contextTokens?: number
  readonly supportsImageInput?: boolean
}

/** The order as a whole specification: with the images and parsers of the catalog, and the GPUs of the cheapest fit. */
export async function resolveSpec(
  app: Pick<App, 'catalog'>,
  db: Db,
  { kind, catalogModel, recipe, gpus, env }: OrderedSpec & { readonly kind?: ModelKind | undefined },
): Promise<Result<ResolvedSpec>> {
  const { file } = catalogOf(app)
  if (catalogModel === undefined) {
    if (recipe === undefined) return failField(['recipe'], 'recipe_missing')
    return ok({
      kind: kind ?? 'chat',
      spec: { recipe: withCatalogDefaults(file, recipe), gpus: { ...gpus, count: gpus.count ?? 1 } },
    })
  }
  const model = findCatalogModel(file, catalogModel)
  if (!model.ok) return model
  const variables = { ...recipe?.env, ...env }
  if (model.value.gated && variables['HF_TOKEN'] === undefined)
    return failField(['env'], 'model_gated', { model: catalogModel })
  const free = await listFreeGpus(db, gpus)
  const fit = cheapestFit(file, model.value, free, gpus.count)
  if (!fit.ok) return fit
  const { spec } = fit.value
  const minMemoryGb = Math.max(spec.gpus.minMemoryGb ?? 0, gpus.minMemoryGb ?? 0)
  const ownEnv = Object.keys(variables).length === 0 ? {} : { env: variables }
  return ok({
    kind: model.value.kind,
    modelId: model.value.id,
    supportsImageInput: model.value.abilities.includes('vision'),
    ...(model.value.contextTokens === undefined ? {} : { contextTokens: model.value.contextTokens }),
    spec: {
      recipe: { ...spec.recipe, ...recipe, ...ownEnv },
      gpus: { ...gpus, count: spec.gpus.count, minMemoryGb },
    },
  })
}

/** The models of the catalog, each with its cheapest fit or the reason why there is none. */
export async function listCatalogFits(
  app: Pick<App, 'catalog'>,
  db: Db,
  kind: ModelKind | undefined,
): Promise<Array<{ readonly model: CatalogFile['models'][number]; readonly fit: Result<CatalogFit> }>> {
  const { file } = catalogOf(app)
  const free = await listFreeGpus(db, {})
  return file.models
    .filter((model) => kind === undefined || model.kind === kind)
    .map((model) => ({ model, fit: cheapestFit(file, model, free) }))
}

/** The GPU models that are free, with a price for a replica of the model or the recipe on each. */
export async function listGpuFits(
  app: Pick<App, 'catalog'>,
  db: Db,
  { catalogModel, recipe }: { readonly catalogModel?: string | undefined; readonly recipe: RecipeName },
): Promise<Result<{ readonly fits: readonly GpuFit[]; readonly simulated: number }>> {
  const { file } = catalogOf(app)
  const model = catalogModel === undefined ? undefined : findCatalogModel(file, catalogModel)
  if (model?.ok === false) return model
  const free = await listFreeGpus(db, {})
  const fits = model === undefined ? gpusFor(recipe, free) : fitsByGpu(file, model.value, free)
  const real = new Set(fits.map(({ gpus }) => gpus.gpuModel))
  const others = free.filter(({ gpuModel, simulation }) => simulation !== null && !real.has(gpuModel))
  return ok({ fits, simulated: new Set(others.map(({ gpuModel }) => gpuModel)).size })
}

async function listFreeGpus(db: Db, { region, model, maxUsdPerGpuHour }: OrderedSpec['gpus']): Promise<FreeGpus[]> {
  const machines = await listCheapestOfEach(db, gpuCounts, {
    region,
    gpuLike: model,
    ...(maxUsdPerGpuHour === undefined ? {} : { maxPrice: usd(maxUsdPerGpuHour) }),
  })
  return machines.map((machine) => ({
    machineId: machine.id,
    gpuCount: machine.gpu_count,
    gpuModel: machine.gpu_model,
    gpuRamMib: machine.gpu_ram_mib,
    ramGb: (machine.hardware.ramGb * machine.gpu_count) / machine.gpus_total,
    region: machine.region,
    cuda: machine.hardware.cudaVersion ?? null,
    vendor: machine.hardware.gpuVendor ?? 'nvidia',
    costPerHour: pricePerHour(machine.price_nano_per_gpu_hour ?? nanoUsdOf(0n), machine.gpu_count),
    simulation: machine.simulation,
  }))
}
