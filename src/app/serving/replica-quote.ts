/** What a replica would cost: the machine that an order would take now. */
import { nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import type { DeploymentSpec } from '../../contract/managed-deployment.ts'
import { ok, type Result } from '../../contract/result.ts'
import type { ModelKind } from '../../domain/inference.ts'
import { whyTooLarge } from '../../domain/model-memory.ts'
import { pricePerHour } from '../../domain/term.ts'
import { hasDownloads } from '../../drivers/driver.ts'
import type { Db } from '../../store/platform/database.ts'
import type { ListedMachine } from '../../store/machine/listed-machine.ts'
import type { Actor, App } from '../app.ts'
import { containerOf, listCandidates, ramOf, whyNoMachine } from './replica.ts'

export interface ReplicaQuote {
  readonly machine: ListedMachine
  readonly costPerHour: NanoUsd
}

export async function quoteReplica(
  app: Pick<App, 'drivers'>,
  db: Db,
  actor: Pick<Actor, 'accountId'>,
  wanted: { readonly spec: DeploymentSpec; readonly kind: ModelKind; readonly forEveryone: boolean },
): Promise<Result<ReplicaQuote>> {
  const { spec, kind, forEveryone } = wanted
  const model = `${actor.accountId}/model`
  const container = containerOf({ model, kind, is_public: forEveryone, account_id: actor.accountId }, spec, 'quoted')
  if (!container.ok) return container
  const { count } = spec.gpus
  const needsDownloads = container.value.weights !== null || spec.recipe.name === 'berth-engine'
  let outcome: Result<ReplicaQuote> = await whyNoMachine(db, spec)
  for (const machine of await listCandidates(db, spec)) {
    if (needsDownloads && !hasDownloads(app.drivers.get(machine.driver), machine.cluster_name)) continue
    const memory = { gpuCount: count, gpuRamMib: machine.gpu_ram_mib, ramGb: ramOf(machine, spec) }
    const tooLarge = whyTooLarge(model, spec.recipe, memory)
    if (tooLarge === undefined) {
      return ok({ machine, costPerHour: pricePerHour(machine.price_nano_per_gpu_hour ?? nanoUsdOf(0n), count) })
    }
    outcome = tooLarge
  }
  return outcome
}
