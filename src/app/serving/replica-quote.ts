/** The price of a replica: that of the machine that an order would take now. */
import type { NanoUsd } from '../../base/money.ts'
import type { DeploymentSpec } from '../../contract/managed-deployment.ts'
import type { Result } from '../../contract/result.ts'
import type { ModelKind } from '../../domain/inference.ts'
import { containerOf, planReplica } from '../../domain/replica-plan.ts'
import type { Db } from '../../store/platform/database.ts'
import type { ListedMachine } from '../../store/machine/listed-machine.ts'
import type { Actor, App } from '../app.ts'
import { listCandidates, whyNoMachine } from './replica.ts'

export interface ReplicaQuote {
  readonly machine: ListedMachine
  readonly costPerHour: NanoUsd
  /** null: not known. */
  readonly kvTokens: number | null
}

export async function quoteReplica(
  app: Pick<App, 'drivers' | 'clock'>,
  db: Db,
  actor: Pick<Actor, 'accountId'>,
  deployment: { readonly spec: DeploymentSpec; readonly kind: ModelKind; readonly forEveryone: boolean },
): Promise<Result<ReplicaQuote>> {
  const { spec, kind, forEveryone } = deployment
  const model = `${actor.accountId}/model`
  const container = containerOf({ model, kind, is_public: forEveryone, account_id: actor.accountId }, spec, 'quoted')
  if (!container.ok) return container
  const request = { model, spec, container: container.value, hourlyBudget: null, living: [], past: [] }
  const { choices } = planReplica(request, await listCandidates(app, db, spec), app.clock.now())
  return choices.find((choice) => choice.ok) ?? choices.at(-1) ?? whyNoMachine(db, spec)
}
