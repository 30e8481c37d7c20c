/** The model catalog: which parsers an engine needs for a model, and which variant on which GPUs is the cheapest. */
import type { NanoUsd } from '../base/money.ts'
import type { CatalogFile, CatalogModel } from '../contract/catalog.ts'
import type { DeploymentSpec } from '../contract/managed-deployment.ts'
import type { RecipeName, RecipeOrder } from '../contract/recipe.ts'
import { fail, failField, ok, type Failure, type Result } from '../contract/result.ts'
import type { GpuVendor } from '../contract/shared.ts'
import { whyDriverTooOld, whyOtherVendor, whyTooLarge } from './model-memory.ts'
import { engines } from './recipe-engine.ts'

const BYTES_PER_GB = 1e9
const BYTES_PER_MIB = 1_048_576
/** A replica has its GPUs in one machine. */
const GPU_COUNTS = [1, 2, 4, 8] as const

/** Free GPUs of one machine, and their price. */
export interface FreeGpus {
  readonly machineId: string
  readonly gpuCount: number
  readonly gpuModel: string
  readonly gpuRamMib: number
  /** The share of the machine's memory that comes with these GPUs. */
  readonly ramGb: number
  readonly region: string
  /** null: the driver does not report it. */
  readonly cuda: string | null
  readonly vendor: GpuVendor
  readonly costPerHour: NanoUsd
  /** `machine`: the machine is simulated. `gpus`: the machine is real, its GPUs are simulated. */
  readonly simulation: 'machine' | 'gpus' | null
}

export interface CatalogFit {
  readonly precision: string
  readonly spec: DeploymentSpec
  readonly gpus: FreeGpus
}

/** The GPU counts that a replica can have. */
export const gpuCounts: readonly number[] = GPU_COUNTS

/** Completes the order with the image, the CUDA version and the parsers of the catalog. */
export function withCatalogDefaults(file: CatalogFile, order: RecipeOrder, modelFamily?: string): RecipeOrder {
  const usual = engineImageOf(file, order)
  const ownImage = order.image === undefined && usual !== undefined
  const parsers = order.parsers ?? parsersOf(file, order, modelFamily)
  return {
    ...order,
    ...(ownImage ? { image: usual.image } : {}),
    ...(ownImage && order.cuda === undefined && usual.cuda !== undefined ? { cuda: usual.cuda } : {}),
    ...(parsers === undefined ? {} : { parsers }),
  }
}

/** The engine's image for the GPUs of the order. undefined: the catalog has none. */
export function engineImageOf(
  file: CatalogFile,
  { name, gpuVendor }: Pick<RecipeOrder, 'name' | 'gpuVendor'>,
): { readonly image: NonNullable<RecipeOrder['image']>; readonly cuda?: string | undefined } | undefined {
  const { image, amdImage, cuda } = file.engines[name] ?? {}
  if (gpuVendor === 'amd') return amdImage === undefined ? undefined : { image: amdImage }
  return image === undefined ? undefined : { image, cuda }
}

function parsersOf(file: CatalogFile, { name, hubModel }: RecipeOrder, familyId?: string): RecipeOrder['parsers'] {
  if (name !== 'vllm' && name !== 'sglang') return undefined
  const family = familyId === undefined ? familyNamed(file, hubModel) : file.families.find(({ id }) => id === familyId)
  const { tools, reasoning } = family?.[name] ?? {}
  return tools === undefined && reasoning === undefined ? undefined : { tools, reasoning }
}

/** The family with the longest name that the model's name begins with. */
function familyNamed(file: CatalogFile, hubModel = ''): CatalogFile['families'][number] | undefined {
  const model = hubModel.slice(hubModel.indexOf('/') + 1).toLowerCase()
  const matches = file.families.flatMap((family) =>
    family.names.filter((name) => model.startsWith(name)).map((name) => ({ family, length: name.length })),
  )
  return matches.toSorted((a, b) => b.length - a.length)[0]?.family
}

export function findCatalogModel(file: CatalogFile, id: string): Result<CatalogModel> {
  const model = file.models.find((one) => one.id === id)
  if (model !== undefined) return ok(model)
  const similar = file.models.map((one) => one.id).filter((one) => one.includes(id) || id.includes(one))
  return failField(['catalogModel'], 'catalog_model_not_found', { model: id, similar })
}

/** The cheapest variant and GPUs. At equal prices, the variant that the catalog names first. */
export function cheapestFit(
  file: CatalogFile,
  model: CatalogModel,
  free: readonly FreeGpus[],
  gpuCount?: number,
): Result<CatalogFit> {
  const plans = plansOf(file, model).filter(({ spec }) => gpuCount === undefined || spec.gpus.count === gpuCount)
  const fits = plans.flatMap((plan) =>
    free.filter((gpus) => whyNot(plan, gpus) === undefined).map((gpus) => ({ ...plan, gpus })),
  )
  const [best] = fits.toSorted((a, b) => compare(a.gpus.costPerHour, b.gpus.costPerHour))
  if (best !== undefined) return ok(best)
  const faults = plans.flatMap((plan) => free.map((gpus) => whyNot(plan, gpus)))
  const reasons = ['driver_too_old', 'gpu_vendor_differs', 'only_simulated_machines', 'model_does_not_fit'] as const
  const fault = reasons.flatMap((reason) => faults.find((one) => one?.reason === reason) ?? [])[0]
  return fault ?? fail('no_capacity', { gpus: needText(model), where: 'on the marketplace' })
}

/** The cost of a replica on one GPU model. */
export interface GpuFit {
  readonly gpus: FreeGpus
  readonly fault: Failure | undefined
}

/**
 * Each GPU model that is free on a real machine, with the cheapest number of GPUs that the model fits on, or why it fits on
 * none. Those that fit come first, each part cheapest first.
 */
export function fitsByGpu(file: CatalogFile, model: CatalogModel, free: readonly FreeGpus[]): GpuFit[] {
  const plans = plansOf(file, model)
  const isReal = (gpus: FreeGpus): boolean => plans.some(({ spec }) => !isPretended(spec.recipe.name, gpus))
  return perGpuModel(free.filter(isReal), (some) => {
    const tried = plans.flatMap((plan) => some.map((gpus) => ({ gpus, fault: whyNot(plan, gpus) })))
    const [best] = tried.filter(({ fault }) => fault === undefined).toSorted(byCost)
    return best ?? tried.toSorted((a, b) => rankOf(a.fault) - rankOf(b.fault) || byCost(a, b))[0]
  })
}

/** Each GPU model that is free on a machine that can run the recipe, one GPU of it. */
export function gpusFor(recipe: RecipeName, free: readonly FreeGpus[]): GpuFit[] {
  return perGpuModel(
    free.filter((gpus) => gpus.gpuCount === 1 && !isPretended(recipe, gpus)),
    (some) => some.map((gpus) => ({ gpus, fault: undefined })).toSorted(byCost)[0],
  )
}

function perGpuModel(free: readonly FreeGpus[], choose: (some: readonly FreeGpus[]) => GpuFit | undefined): GpuFit[] {
  const names = [...new Set(free.map(({ gpuModel }) => gpuModel))]
  return names
    .flatMap((name) => choose(free.filter(({ gpuModel }) => gpuModel === name)) ?? [])
    .toSorted((a, b) => Number(a.fault !== undefined) - Number(b.fault !== undefined) || byCost(a, b))
}

/** The most telling first: a wrong number of GPUs is a fault of most attempts. */
const faultOrder: readonly string[] = ['driver_too_old', 'gpu_vendor_differs', 'model_does_not_fit', 'no_capacity']

function rankOf(fault: Failure | undefined): number {
  const rank = faultOrder.indexOf(fault?.reason ?? '')
  return rank < 0 ? faultOrder.length : rank
}

function byCost(a: { readonly gpus: FreeGpus }, b: { readonly gpus: FreeGpus }): number {
  return compare(a.gpus.costPerHour, b.gpus.costPerHour)
}

/** A simulated machine runs nothing, and simulated GPUs have no memory. */
function isPretended(recipe: RecipeName, { simulation }: FreeGpus): boolean {
  return simulation === 'machine' || (simulation === 'gpus' && engines[recipe].memory.of === 'gpu')
}

interface Plan {
  readonly precision: string
  readonly spec: DeploymentSpec
}

function plansOf(file: CatalogFile, model: CatalogModel): Plan[] {
  return model.variants.flatMap((variant) => {
    const [recipe] = Object.entries(variant.engines) as Array<[RecipeName, { args?: string[] }]>
    if (recipe === undefined) return []
    const [name, { args: engineArgs = [] }] = recipe
    const familyArgs = familyArgsOf(file, model, name)
    const args = [...familyArgs, ...engineArgs]
    const order: RecipeOrder = {
      name,
      ...(variant.hubModel === undefined ? {} : { hubModel: variant.hubModel }),
      ...(variant.weightsGib === undefined ? {} : { weightsGib: variant.weightsGib }),
      ...(variant.kvBytesPerToken === undefined ? {} : { kvBytesPerToken: variant.kvBytesPerToken }),
      ...(model.attentionHeads === undefined ? {} : { attentionHeads: model.attentionHeads }),
      ...(args.length === 0 ? {} : { args }),
    }
    return GPU_COUNTS.filter((count) => (model.attentionHeads ?? count) % count === 0).map((count) => ({
      precision: variant.precision,
      spec: {
        recipe: withCatalogDefaults(file, order, model.family),
        gpus: { count, minMemoryGb: Math.ceil((variant.minGb / count) * 10) / 10 },
      },
    }))
  })
}

function familyArgsOf(file: CatalogFile, { family }: CatalogModel, name: RecipeName): readonly string[] {
  if (name !== 'vllm' && name !== 'sglang') return []
  return file.families.find(({ id }) => id === family)?.[name]?.args ?? []
}

function whyNot({ spec: { recipe, gpus: need } }: Plan, gpus: FreeGpus) {
  if (gpus.gpuCount !== need.count) return fail('no_capacity', { gpus: `${need.count} × GPU`, where: 'there' })
  const tooLarge = whyTooLarge(recipe.hubModel ?? recipe.name, recipe, gpus)
  if (tooLarge !== undefined) return tooLarge
  const gb = (gpus.gpuRamMib * BYTES_PER_MIB) / BYTES_PER_GB
  const text = `${need.count} × GPU with ${need.minMemoryGb} GB`
  if (gb < (need.minMemoryGb ?? 0)) return fail('no_capacity', { gpus: text, where: 'there' })
  if (isPretended(recipe.name, gpus)) {
    return failField(['gpus'], 'only_simulated_machines', { gpus: text })
  }
  return whyOtherVendor(recipe, gpus.vendor) ?? whyDriverTooOld(recipe, gpus.cuda)
}

function needText({ variants }: CatalogModel): string {
  return `GPUs with ${Math.min(...variants.map(({ minGb }) => minGb))} GB together`
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0
}
