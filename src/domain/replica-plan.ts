/** A replica before it is ordered: its container, the machines it may run on in their order, and why it cannot run on one. */
import type { Instant } from '../base/instant.ts'
import { nanoUsdOf, zeroUsd, type NanoUsd } from '../base/money.ts'
import type { DeploymentSpec } from '../contract/managed-deployment.ts'
import { fail, failField, ok, type Failure, type Result } from '../contract/result.ts'
import type { ModelKind } from './inference.ts'
import { kvTokensOf, whyDriverTooOld, whyOtherVendor, whyTooLarge } from './model-memory.ts'
import type { MachineHardware } from './machine.ts'
import { replicaOf, type ReplicaContainer } from './recipe.ts'
import { rankForReplica, type PastStarts, type ReplicaMachine } from './replica-rank.ts'
import { pricePerHour } from './term.ts'

/** The fields of a deployment that decide what its container is. */
export interface ServedDeployment {
  readonly model: string
  readonly kind: ModelKind
  readonly is_public: boolean
  readonly account_id: string
}

/** Returns the container of one replica, or why the recipe cannot produce one. */
export function containerOf(
  { model, kind, is_public: isPublic, account_id }: ServedDeployment,
  spec: DeploymentSpec,
  apiKey: string,
): Result<ReplicaContainer> {
  // Files on the server and in the object store belong to the operator.
  if (!isPublic && spec.recipe.weights?.files.some(({ source }) => source.kind !== 'https') === true) {
    const [recipe, option, fault] = [spec.recipe.name, 'weights', 'operator_only'] as const
    return failField(['recipe', 'weights'], 'recipe_option', { recipe, option, fault })
  }
  const prefix = `${account_id}/`
  const ownNames = spec.recipe.adapters?.map(({ name }) => (name.startsWith(prefix) ? name.slice(prefix.length) : name))
  const nested = isPublic ? -1 : (ownNames?.findIndex((name) => name.includes('/')) ?? -1)
  if (nested >= 0) {
    const [recipe, option, fault] = [spec.recipe.name, 'adapters', 'slash'] as const
    return failField(['recipe', 'adapters', nested, 'name'], 'recipe_option', { recipe, option, fault })
  }
  const adapters = spec.recipe.adapters?.map((one) => ({ ...one, name: adapterModel(one.name, isPublic, account_id) }))
  const recipe = adapters === undefined ? spec.recipe : { ...spec.recipe, adapters }
  return replicaOf(recipe, { name: model, kind, gpuCount: spec.gpus.count, apiKey })
}

/** The name of an adapter's model. A private one begins with the account, as the deployment's own model does. */
export function adapterModel(name: string, isPublic: boolean, accountId: string): string {
  return isPublic || name.startsWith(`${accountId}/`) ? name : `${accountId}/${name}`
}

export interface ReplicaCandidate extends ReplicaMachine {
  readonly gpu_ram_mib: number
  readonly gpus_total: number
  readonly hardware: Pick<MachineHardware, 'ramGb' | 'cudaVersion' | 'gpuVendor'>
  /** Whether the driver downloads files for a workload. */
  readonly hasDownloads: boolean
}

export interface ReplicaRequest {
  readonly model: string
  readonly spec: DeploymentSpec
  readonly container: Pick<ReplicaContainer, 'weights'>
  /** For all replicas of the deployment together. null: no limit. */
  readonly hourlyBudget: NanoUsd | null
  /** The replicas that the deployment has already. */
  readonly living: ReadonlyArray<{ readonly node: string | null; readonly cost_per_hour: NanoUsd }>
  readonly past: readonly PastStarts[]
}

export interface ReplicaChoice<Machine> {
  readonly machine: Machine
  readonly costPerHour: NanoUsd
  /** The tokens that the replica's key-value cache holds. null: unknown. */
  readonly kvTokens: number | null
}

export interface ReplicaPlan<Machine> {
  /** The machines that the budget allows, best first, each with its price or with the reason why the model cannot run there. */
  readonly choices: ReadonlyArray<Result<ReplicaChoice<Machine>>>
  /** The failure of the best machine that the budget does not allow. undefined: there is none. */
  readonly overBudget: Failure | undefined
}

export function planReplica<Machine extends ReplicaCandidate>(
  { model, spec, container, hourlyBudget, living, past }: ReplicaRequest,
  machines: readonly Machine[],
  now: Instant,
): ReplicaPlan<Machine> {
  const { gpus, recipe } = spec
  const needsDownloads = container.weights !== null || recipe.name === 'berth-engine'
  const budgetPerHour = budgetLeft(hourlyBudget, living)
  const choices: Array<ReplicaPlan<Machine>['choices'][number]> = []
  let overBudget: Failure | undefined
  for (const machine of rankForReplica(machines, { occupied: living.map(({ node }) => node), past, now })) {
    if (needsDownloads && !machine.hasDownloads) continue
    const costPerHour = pricePerHour(machine.price_nano_per_gpu_hour ?? zeroUsd, gpus.count)
    if (budgetPerHour !== null && costPerHour > budgetPerHour) {
      overBudget ??= fail('hourly_budget', { costPerHour, left: budgetPerHour })
      continue
    }
    const ramGb = (machine.hardware.ramGb * gpus.count) / machine.gpus_total
    const memory = { gpuCount: gpus.count, gpuRamMib: machine.gpu_ram_mib, ramGb }
    const { gpuVendor, cudaVersion = null } = machine.hardware
    const fault =
      whyOtherVendor(recipe, gpuVendor) ?? whyTooLarge(model, recipe, memory) ?? whyDriverTooOld(recipe, cudaVersion)
    choices.push(fault ?? ok({ machine, costPerHour, kvTokens: kvTokensOf(recipe, memory) }))
  }
  return { choices, overBudget }
}

/** The part of the hourly budget that remains for another replica. null: no limit. */
function budgetLeft(budget: NanoUsd | null, living: ReplicaRequest['living']): NanoUsd | null {
  if (budget === null) return null
  const spent = living.reduce((sum, { cost_per_hour }) => sum + cost_per_hour, 0n)
  return nanoUsdOf(spent >= budget ? 0n : budget - spent)
}

/** The GPUs of a replica, in the words of a failure. */
export function describeGpus({ gpus }: Pick<DeploymentSpec, 'gpus'>): string {
  const memory = gpus.minMemoryGb === undefined ? '' : ` with ${gpus.minMemoryGb} GB`
  const where = gpus.region === undefined ? '' : ` in ${gpus.region}`
  const price = gpus.maxUsdPerGpuHour === undefined ? '' : ` for at most $${gpus.maxUsdPerGpuHour} per GPU-hour`
  return `${gpus.count} × ${gpus.model ?? 'GPU'}${memory}${where}${price}`
}
