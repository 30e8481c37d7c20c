/** The life of a replica: ordered like any rental, charged from its first answer, drained, ended. One transaction each. */
import { randomBytes } from 'node:crypto'
import { randomId } from '../../base/id.ts'
import type { Instant } from '../../base/instant.ts'
import { costOfSpan, nanoUsdOf, usd, type NanoUsd } from '../../base/money.ts'
import type { DeploymentSpec } from '../../contract/managed-deployment.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import { HOLD_COVERS_MS } from '../../domain/metering.ts'
import { gpuRamMibFor } from '../../domain/model-memory.ts'
import type { OrderFields } from '../../domain/order.ts'
import type { ReplicaContainer } from '../../domain/recipe.ts'
import { containerOf, describeGpus, planReplica, type ReplicaCandidate } from '../../domain/replica-plan.ts'
import { AVOIDED_FACTOR, avoidedMachines, type ReplicaRank } from '../../domain/replica-rank.ts'
import type { ReplicaEnd } from '../../domain/serving.ts'
import { hasDownloads } from '../../drivers/driver.ts'
import { undoOnFailure, type Db, type Tx } from '../../store/platform/database.ts'
import { listCheapest, type ListedMachine } from '../../store/machine/listed-machine.ts'
import { readOrderedMachines } from '../../store/machine/machine.ts'
import { readHouseMoney, spendHouseMoney } from '../../store/ledger/house-money.ts'
import { readVersion, updateManaged, type ManagedDeployment } from '../../store/serving/managed-deployment.ts'
import { lockRental, type Rental } from '../../store/rental/rental.ts'
import { insertReplica, listPastStarts, moveReplica, type Replica } from '../../store/serving/replica.ts'
import { findOpenSegment } from '../../store/ledger/segment.ts'
import type { App } from '../app.ts'
import { recordDeploymentEvent } from './deployment-event.ts'
import { endFreeTime } from './free-start.ts'
import { fundHouse } from '../money/house.ts'
import { checkOrder, mayFitElsewhere } from '../order/check-order.ts'
import { readNode, siteOf } from '../order/marketplace.ts'
import { placeOrder } from '../order/place-order.ts'
import { readOrder, type OrderDraft } from '../order/read-order.ts'
import { readLastLog } from '../rental/rental-log.ts'
import { runningSegmentOf } from '../rental/rental-power.ts'
import { terminateRental } from '../rental/rental.ts'

/** A machine fails only if a concurrent order takes its free GPUs. */
const MAX_ATTEMPTS = 16
const BYTES_PER_MIB = 1_048_576
const KEY_BYTES = 24

/** Orders a replica of a locked deployment on the best machine that fits. `living`: the replicas that it has. */
export async function startReplica(
  app: App,
  tx: Tx,
  deployment: ManagedDeployment,
  version: number,
  living: readonly Replica[],
): Promise<Result<Rental>> {
  const row = await readVersion(tx.db, deployment.id, version)
  if (row === undefined) throw new Error(`deployment ${deployment.id} has no version ${version}`)
  const { spec } = row
  const key = randomBytes(KEY_BYTES).toString('base64url')
  const container = containerOf(deployment, spec, key)
  if (!container.ok) return container
  const past = await listPastStarts(tx.db, deployment.id, version)
  const { hourlyBudgetUsd } = deployment.settings
  const hourlyBudget = hourlyBudgetUsd === null ? null : usd(hourlyBudgetUsd)
  const request = { model: deployment.model, spec, container: container.value, hourlyBudget, living, past }
  const now = tx.clock.now()
  const plan = planReplica(request, await listCandidates(app, tx.db, spec, { past, now }), now)
  let draft: Result<OrderDraft> | undefined
  let outcome: Result<Rental> | undefined
  for (const choice of plan.choices) {
    if (!choice.ok) {
      outcome = choice
      continue
    }
    draft ??= await draftReplica(app, tx, deployment, spec, container.value)
    if (!draft.ok) return draft
    const { value } = draft
    outcome = await undoOnFailure(tx, () => placeReplica(app, tx, deployment, value, choice.value))
    if (outcome.ok) {
      await keep(app, tx, deployment, version, container.value, outcome.value, key)
      return outcome
    }
    if (!mayFitElsewhere(outcome)) return outcome
  }
  const failure = plan.overBudget ?? outcome
  if (failure !== undefined) return failure
  const waitsForOthers = !deployment.in_place && living.some((one) => one.version !== version)
  return waitsForOthers
    ? fail('no_spare_gpus', { gpus: describeGpus(spec), where: 'on the marketplace' })
    : whyNoMachine(tx.db, spec)
}

/** Machines that a replica may be ordered on. `history`: undefined for one of a new deployment. */
export async function listCandidates(
  app: Pick<App, 'drivers'>,
  db: Db,
  spec: DeploymentSpec,
  history?: Pick<ReplicaRank, 'past' | 'now'>,
): Promise<Array<ListedMachine & ReplicaCandidate>> {
  const machines = await listFitting(db, spec, { isSimulated: false, history })
  return machines.map((machine) => ({
    ...machine,
    hasDownloads: hasDownloads(app.drivers.get(machine.driver), machine.cluster_name),
  }))
}

/** Why no machine is a candidate: none is free, or those that are free are simulated. */
export async function whyNoMachine(db: Db, spec: DeploymentSpec): Promise<Failure> {
  const gpus = describeGpus(spec)
  const simulated = await listFitting(db, spec, { isSimulated: true })
  if (simulated.length > 0) return failField(['gpus'], 'only_simulated_machines', { gpus })
  return fail('no_capacity', { gpus, where: 'on the marketplace' })
}

/** A deployment may wait for free GPUs, but simulated machines never run it. */
export async function refuseSimulated(db: Db, spec: DeploymentSpec): Promise<Failure | undefined> {
  if ((await listFitting(db, spec, { isSimulated: false })).length > 0) return undefined
  const why = await whyNoMachine(db, spec)
  return why.reason === 'only_simulated_machines' ? why : undefined
}

async function listFitting(
  db: Db,
  spec: DeploymentSpec,
  { isSimulated, history }: { isSimulated: boolean; history?: Pick<ReplicaRank, 'past' | 'now'> | undefined },
): Promise<ListedMachine[]> {
  const { gpus, recipe } = spec
  const orderedMib = gpus.minMemoryGb === undefined ? 0 : Math.floor((gpus.minMemoryGb * 1e9) / BYTES_PER_MIB)
  const neededMib = gpuRamMibFor(recipe, gpus.count) ?? 0
  const query = {
    gpuCount: gpus.count,
    limit: MAX_ATTEMPTS,
    isSimulated,
    isWhole: gpus.count > 1,
    preferred: history?.past.flatMap(({ machineId, servedAt }) => (servedAt === null ? [] : [machineId])) ?? [],
    avoided: { ids: history === undefined ? [] : avoidedMachines(history), factor: AVOIDED_FACTOR },
    ...(gpus.model === undefined ? {} : { gpuLike: gpus.model }),
    ...(gpus.region === undefined ? {} : { region: gpus.region }),
    ...(gpus.maxUsdPerGpuHour === undefined ? {} : { maxPrice: usd(gpus.maxUsdPerGpuHour) }),
  }
  const fitting = await listCheapest(db, { ...query, minRamMib: Math.max(orderedMib, neededMib) })
  // If nothing is large enough, the best reason is the arithmetic of one that is not.
  return fitting.length > 0 || neededMib <= orderedMib ? fitting : listCheapest(db, query)
}

async function placeReplica(
  app: App,
  tx: Tx,
  { account_id, person_id, api_key_id, is_public }: ManagedDeployment,
  draft: OrderDraft,
  { machine: { id, cluster_name }, costPerHour }: { readonly machine: ListedMachine; readonly costPerHour: NanoUsd },
): Promise<Result<Rental>> {
  if (is_public) {
    const [running] = await readHouseMoney(tx.db, account_id)
    await fundHouse(tx, account_id, costOfSpan(nanoUsdOf(costPerHour + (running?.perHour ?? 0n)), HOLD_COVERS_MS))
  }
  const machines = await readOrderedMachines(tx.db, [id])
  const machine = readNode(app, { nodeName: id, clusterName: cluster_name }, machines.get(id))
  if (!machine.ok) return machine
  const now = tx.clock.now()
  const order = checkOrder(app, draft, siteOf(draft, machine.value, now), now)
  // It is ordered for the member and the key that created the deployment, so the limits of the key apply.
  const payer = { accountId: account_id, personId: person_id, keyId: api_key_id }
  return order.ok ? placeOrder(app, tx, payer, order.value) : order
}

/** The order of a replica, for whichever machine. */
async function draftReplica(
  app: App,
  tx: Tx,
  { id, model, account_id }: ManagedDeployment,
  spec: DeploymentSpec,
  { image, command, args, env, port, shmGb, weights, compileCache }: ReplicaContainer,
): Promise<Result<OrderDraft>> {
  const fields: OrderFields = {
    gpuCount: spec.gpus.count,
    image: { name: image.name, tag: image.tag ?? undefined },
    label: model,
    env: { ...env },
    command: command === null ? undefined : [...command],
    args: args === null ? undefined : [...args],
    shmGb: shmGb ?? undefined,
    weights: weights ?? undefined,
    compileCache: compileCache ?? undefined,
    // Gateways come through the link of the host, so the port is private and has no public address.
    ports: [{ port, protocol: 'http', access: 'private' }],
    metadata: { deployment: id },
  }
  const expanded = { order: fields, templateId: null, minVramGb: 0 }
  const draft = await readOrder(app, tx, { accountId: account_id }, 'container', expanded)
  return draft.ok ? ok({ ...draft.value, isUnattended: true }) : draft
}

async function keep(
  app: App,
  tx: Tx,
  deployment: ManagedDeployment,
  version: number,
  { port, protocol, concurrency, metrics, upstreamModel, adapters }: ReplicaContainer,
  rental: Rental,
  key: string,
): Promise<void> {
  const id = randomId('rep')
  await insertReplica(tx, {
    id,
    deployment_id: deployment.id,
    version,
    rental_id: rental.id,
    endpoint: {
      port,
      protocol,
      concurrency,
      upstreamModel,
      readsMetrics: metrics !== null,
      ...(adapters.length === 0 ? {} : { adapters }),
    },
    key_sealed: app.vault.seal(key),
  })
  recordDeploymentEvent(tx, deployment, 'deployment.replica_starting', { replicaId: id, rentalId: rental.id, version })
}

/** It has answered: gateways may use it, and its rental is charged from this instant, if it was not already. False: it is too late, or too early. */
export async function becomeReady(
  tx: Tx,
  deployment: ManagedDeployment,
  replica: Replica,
  loadedAt: Instant,
): Promise<boolean> {
  const rental = await lockRental(tx, replica.rental_id)
  if (rental?.status !== 'Running') return false
  const now = tx.clock.now()
  const metered = { rentalId: rental.id, volumeId: null }
  const free = await findOpenSegment(tx.db, metered)
  if (free === undefined || free.started_at >= now) return false
  const ready = { state: 'ready', reason: null, detail: null, loadedAt } as const
  if (!(await moveReplica(tx, replica.id, ['starting'], ready))) return false
  if (free.price_nano_per_hour === 0n)
    await endFreeTime(tx, rental, free, { at: now, pricePerHour: (await runningSegmentOf(tx, rental)).pricePerHour })
  recordDeploymentEvent(tx, deployment, 'deployment.replica_ready', {
    replicaId: replica.id,
    rentalId: rental.id,
    version: replica.version,
    startSeconds: Math.round((now - replica.created_at) / 1_000),
  })
  // With the first replica at once: a rollout that comes before the next pass has a version that serves meanwhile.
  if (deployment.ready_version === null) await finishRollout(tx, deployment, replica.version)
  return true
}

/** This version serves from now on. */
export async function finishRollout(tx: Tx, deployment: ManagedDeployment, version: number): Promise<void> {
  await updateManaged(tx, deployment.id, { ready_version: version })
  recordDeploymentEvent(tx, deployment, 'deployment.rollout_done', { version })
}

/** Gateways send it nothing new. */
export async function drainReplica(tx: Tx, replica: Replica, why: ReplicaEnd): Promise<void> {
  await moveReplica(tx, replica.id, ['ready'], { state: 'draining', reason: why })
}

export async function endReplica(
  tx: Tx,
  deployment: ManagedDeployment,
  replica: Replica,
  end: { readonly why: ReplicaEnd; readonly isFailure: boolean; readonly detail: string | null },
): Promise<void> {
  const { why, isFailure, detail } = end
  const reason = reasonOf(replica, why)
  if (!(await moveReplica(tx, replica.id, ['starting', 'ready', 'draining'], { state: 'ended', reason, detail })))
    return
  const rental = await lockRental(tx, replica.rental_id)
  if (rental !== undefined) await terminateRental(tx, rental, 'replica_ended', tx.clock.now())
  if (deployment.is_public) await spendHouseMoney(tx, deployment.account_id, replica.rental_id)
  recordDeploymentEvent(tx, deployment, isFailure ? 'deployment.replica_failed' : 'deployment.replica_ended', {
    replicaId: replica.id,
    rentalId: replica.rental_id,
    version: replica.version,
    reason,
    ...(detail === null ? {} : { detail }),
  })
}

/** Why it was drained, or what ended its rental, rather than that it was drained or ended. */
function reasonOf({ reason, status_reason }: Replica, why: ReplicaEnd): string {
  if (why === 'drained') return reason ?? why
  return why === 'rental_ended' ? (status_reason ?? why) : why
}

const MAX_LOG_LINES = 20
const MAX_DETAIL_CHARS = 2_000
/** Colors, and the carriage returns of a terminal. */
// eslint-disable-next-line no-control-regex
const TERMINAL_CODES = /\u001B\[[0-9;?]{0,40}[A-Za-z]|\r/g

/**
 * Why a replica failed: the last readiness check, and the last lines of its output. A host sends them when it removes
 * the container, a few seconds after the failure. null: nothing is known.
 */
export async function explainReplica(
  app: Pick<App, 'database' | 'vault'>,
  replica: Pick<Replica, 'rental_id' | 'account_id' | 'detail'>,
): Promise<string | null> {
  const log = await readLastLog(app, { id: replica.rental_id, account_id: replica.account_id })
  const lines = log?.replaceAll(TERMINAL_CODES, '').trimEnd().split('\n').slice(-MAX_LOG_LINES).join('\n')
  const text = [replica.detail, lines].filter(Boolean).join('\n')
  return text === '' ? null : text.slice(-MAX_DETAIL_CHARS)
}
