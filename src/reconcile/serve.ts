/**
 * Serves managed deployments: decides how many replicas each needs, and starts, checks, drains and ends them. A pass only
 * reads and writes the database, so it is quick; readiness checks run beside it (serve-probe.ts) and write their own
 * results. Each step is one transaction under the lock of the deployment.
 */
import { addMs, HOUR_MS, SECOND_MS, type Instant } from '../base/instant.ts'
import { usd } from '../base/money.ts'
import { dropAdapters } from '../app/serving/adapter.ts'
import type { App, ReplicaStart } from '../app/app.ts'
import { recordDeploymentEvent, tellDeploymentEvent } from '../app/serving/deployment-event.ts'
import { chargeLongStarts } from '../app/serving/free-start.ts'
import { balanceHouse } from '../app/money/house.ts'
import { drainReplica, endReplica, explainReplica, finishRollout, startReplica } from '../app/serving/replica.ts'
import { containerOf } from '../domain/replica-plan.ts'
import { automaticTarget, decideScale, type ServingDemand } from '../domain/scaling.ts'
import {
  affordableReplicas,
  backOffMs,
  isGivenUp,
  LOAD_MS,
  planServing,
  PROVEN_MS,
  TOLD_FAILURES,
  type ReplicaFacts,
  type ServingAction,
} from '../domain/serving.ts'
import { transact, type Tx } from '../store/platform/database.ts'
import { endTurn, takeTurn } from '../store/platform/lease.ts'
import * as store from '../store/serving/managed-deployment.ts'
import {
  deleteOldLoads,
  listLiveGateways,
  listReplicas,
  readLoads,
  type ModelLoad,
  type Replica,
} from '../store/serving/replica.ts'
import { eachOf, type Reconciler } from './loop.ts'
import { makeProbes, type Probes } from './serve-probe.ts'

const LEASE_MS = 15 * SECOND_MS
const WIDTH = 8
/** A drain needs the confirmation of each gateway that was seen within this time. */
const GATEWAY_MS = 30 * SECOND_MS
/** Failures of an order that ending an old replica can solve. */
const NO_CAPACITY: ReadonlySet<string> = new Set(['no_capacity', 'no_spare_gpus'])
const LOOP = 'serve'

export function serveDeployments(app: App): Reconciler {
  const probes = makeProbes(app)
  let sweptAt = app.clock.now()
  return {
    name: LOOP,
    due: store.hasManaged,
    run: async () => {
      const now = app.clock.now()
      const { db } = app.database
      const deployments = await store.listManaged(db)
      // Also after the last deployment is gone, so that its money goes back to the house.
      await balanceHouse(app.database)
      if (deployments.length === 0) return false
      const token = await takeTurn(db, LOOP, { now, leaseMs: LEASE_MS })
      if (token === undefined) return false
      try {
        const [loads, gateways] = await Promise.all([
          readLoads(db, addMs(now, -LOAD_MS)),
          listLiveGateways(db, addMs(now, -GATEWAY_MS)),
        ])
        await eachOf(deployments, WIDTH, (one) => serveOne(app, probes, one, { loads, gateways }))
        if (sweptAt < addMs(now, -HOUR_MS)) {
          sweptAt = now
          await deleteOldLoads(db, addMs(now, -HOUR_MS))
        }
      } finally {
        await endTurn(db, LOOP, token, now)
      }
      return false
    },
  }
}

interface World {
  readonly loads: readonly ModelLoad[]
  readonly gateways: readonly string[]
}

async function serveOne(app: App, probes: Probes, snapshot: store.ManagedDeployment, world: World): Promise<void> {
  const loads = world.loads.filter(({ model }) => model === snapshot.model)
  const actions = await transact(app.database, (tx) => decide(tx, snapshot, loads, world.gateways))
  for (const action of actions) await carryOut(app, snapshot, action)
  const replicas = await listReplicas(app.database.db, [snapshot.id])
  await chargeLongStarts(app, snapshot, replicas)
  for (const one of replicas) if (one.state === 'starting' && one.status === 'Running') probes.check(snapshot, one)
}

/** Decides under the lock of the deployment: how many replicas there should be, and what to do next. */
async function decide(
  tx: Tx,
  snapshot: store.ManagedDeployment,
  loads: readonly ModelLoad[],
  gateways: readonly string[],
): Promise<ServingAction[]> {
  const deployment = await store.lockManaged(tx, snapshot.id)
  if (deployment === undefined) return []
  const now = tx.clock.now()
  const replicas = await listReplicas(tx.db, [deployment.id])
  if (deployment.deleted_at !== null && replicas.length === 0) {
    recordDeploymentEvent(tx, deployment, 'deployment.deleted')
    await store.deleteManaged(tx, deployment)
    return []
  }
  const desired = await scale(tx, deployment, replicas, loads, now)
  await noteProgress(tx, deployment, replicas, desired, now)
  const container = containerOf(deployment, deployment.spec, '')
  return planServing(
    {
      replicas: replicas.map((one) => factsOf(one, loads, gateways)),
      desired,
      version: deployment.version,
      readyVersion: deployment.ready_version,
      isVersionFailed: deployment.failed_reason !== null,
      inPlace: deployment.in_place,
      isDeleted: deployment.deleted_at !== null,
      failures: deployment.failures,
      failedAt: deployment.failed_at,
      blocked:
        deployment.blocked_at === null
          ? null
          : { at: deployment.blocked_at, noCapacity: NO_CAPACITY.has(deployment.blocked_reason ?? '') },
      startMs: (container.ok ? container.value.startSeconds : 0) * SECOND_MS,
      drainMs: deployment.settings.drainSeconds * SECOND_MS,
    },
    now,
  )
}

async function scale(
  tx: Tx,
  deployment: store.ManagedDeployment,
  replicas: readonly Replica[],
  loads: readonly ModelLoad[],
  now: Instant,
): Promise<number> {
  const { settings, scaling: before } = deployment
  const rule = {
    ...settings.replicas,
    targetOutstanding: settings.scaling.targetOutstanding ?? automaticTargetOf(replicas, loads),
    upDelayMs: settings.scaling.upDelaySeconds * SECOND_MS,
    downDelayMs: settings.scaling.downDelaySeconds * SECOND_MS,
    idleMs: settings.scaling.idleSeconds * SECOND_MS,
  }
  const { state, why } = decideScale(rule, before, demandOf(loads, replicas), now, affordable(deployment, replicas))
  if (state.desired !== before.desired) {
    recordDeploymentEvent(tx, deployment, 'deployment.scaled', { from: before.desired, to: state.desired, reason: why })
  }
  const { hourlyBudgetUsd: budgetUsd } = settings
  if (why === 'budget') await tellDeploymentEvent(tx, deployment, 'deployment.budget_reached', 'budget', { budgetUsd })
  const isChanged = JSON.stringify(state) !== JSON.stringify(before)
  if (isChanged) await store.updateManaged(tx, deployment.id, { scaling: state, scaling_why: why })
  return state.desired
}

function automaticTargetOf(replicas: readonly Replica[], loads: readonly ModelLoad[]): number {
  const ready = replicas.filter(({ state }) => state === 'ready').map(({ id }) => id)
  return automaticTarget(
    loads.map((load) => load.replicas),
    ready,
  )
}

function demandOf(loads: readonly ModelLoad[], replicas: readonly Replica[]): ServingDemand {
  const times = loads.flatMap(({ activeAt }) => activeAt ?? [])
  return {
    outstanding: loads.reduce((sum, one) => sum + one.outstanding, 0),
    current: loads.reduce((sum, one) => sum + one.current, 0),
    activeAt: times.length === 0 ? null : (Math.max(...times) as Instant),
    starting: replicas.filter(({ state }) => state === 'starting').length,
    ready: replicas.filter(({ state, status }) => state === 'ready' && status === 'Running').length,
  }
}

/** Uses the prices of the current replicas; the order checks the price of a new one. */
function affordable({ settings }: store.ManagedDeployment, replicas: readonly Replica[]): number {
  const budget = settings.hourlyBudgetUsd === null ? null : usd(settings.hourlyBudgetUsd)
  return affordableReplicas(
    budget,
    replicas.map(({ cost_per_hour }) => cost_per_hour),
  )
}

function factsOf(one: Replica, loads: readonly ModelLoad[], gateways: readonly string[]): ReplicaFacts {
  const reports = loads.flatMap(({ gatewayId, replicas, at }) => {
    const load = replicas[one.id]
    return load === undefined ? [] : [{ gatewayId, at, ...load }]
  })
  const confirmed = new Set(
    reports
      .filter(({ isUnrouted, at }) => isUnrouted && one.draining_at !== null && at > one.draining_at)
      .map((r) => r.gatewayId),
  )
  return {
    id: one.id,
    version: one.version,
    state: one.state === 'ended' ? 'draining' : one.state,
    createdAt: one.created_at,
    readyAt: one.ready_at,
    drainingAt: one.draining_at,
    rental: { status: one.status, since: one.status_since },
    inFlight: reports.reduce((sum, { inFlight }) => sum + inFlight, 0),
    isStuck: reports.some(({ isStuck }) => isStuck === true),
    isUnrouted: gateways.every((id) => confirmed.has(id)),
  }
}

/** A version is ready with its first replica; a replica that has served for a while ends a series of failures. */
async function noteProgress(
  tx: Tx,
  deployment: store.ManagedDeployment,
  replicas: readonly Replica[],
  desired: number,
  now: Instant,
): Promise<void> {
  const { id, version, ready_version, failures } = deployment
  const current = replicas.filter((one) => one.version === version && one.state === 'ready')
  const isProven = current.some(({ ready_at }) => ready_at !== null && addMs(ready_at, PROVEN_MS) <= now)
  if (failures > 0 && isProven) await store.updateManaged(tx, id, { failures: 0, failed_at: null })
  const hasOld = replicas.some((one) => one.version !== version && one.state !== 'draining')
  if (version === ready_version || current.length === 0 || hasOld || current.length < Math.min(desired, 1)) return
  await finishRollout(tx, deployment, version)
  await dropAdapters(tx, deployment)
}

async function carryOut(app: App, snapshot: store.ManagedDeployment, action: ServingAction): Promise<void> {
  switch (action.kind) {
    case 'start':
      return start(app, snapshot, action.version)
    case 'drain':
      return transact(app.database, async (tx) => {
        const locked = await lockReplica(tx, snapshot, action.replicaId)
        if (locked !== undefined) await drainReplica(tx, locked.replica, action.why)
      })
    case 'end':
      return end(app, snapshot, action)
  }
}

async function lockReplica(tx: Tx, snapshot: store.ManagedDeployment, replicaId: string) {
  const deployment = await store.lockManaged(tx, snapshot.id)
  const replica = (await listReplicas(tx.db, [snapshot.id])).find(({ id }) => id === replicaId)
  return deployment === undefined || replica === undefined ? undefined : { deployment, replica }
}

/** Starts a replica, unless the deployment has changed since the decision. */
async function start(app: App, snapshot: store.ManagedDeployment, version: number): Promise<void> {
  const outcome = await transact(app.database, async (tx) => {
    const deployment = await store.lockManaged(tx, snapshot.id)
    if (deployment === undefined || deployment.deleted_at !== null || deployment.version !== snapshot.version)
      return undefined
    const started = await startReplica(app, tx, deployment, version, await listReplicas(tx.db, [snapshot.id]))
    if (started.ok && deployment.blocked_at !== null) await store.updateManaged(tx, snapshot.id, { blocked: null })
    return started
  })
  if (outcome === undefined || outcome.ok) return
  app.replicaStart?.(snapshot.model, 'not_ordered')
  const { reason, message } = outcome
  await transact(app.database, async (tx) => {
    const deployment = await store.lockManaged(tx, snapshot.id)
    if (deployment === undefined) return
    if (deployment.blocked_reason !== reason) {
      const { hourlyBudgetUsd: budgetUsd } = deployment.settings
      const isBudget = reason === 'hourly_budget'
      const data = { reason, detail: message, version, ...(isBudget ? { budgetUsd } : {}) }
      await tellDeploymentEvent(tx, deployment, 'deployment.blocked', isBudget ? 'budget' : `blocked:${reason}`, data)
    }
    await store.updateManaged(tx, snapshot.id, { blocked: { reason, detail: message, at: tx.clock.now() } })
  })
}

async function end(
  app: App,
  snapshot: store.ManagedDeployment,
  action: Extract<ServingAction, { kind: 'end' }>,
): Promise<void> {
  let started: ReplicaStart | undefined
  await transact(app.database, async (tx) => {
    const locked = await lockReplica(tx, snapshot, action.replicaId)
    if (locked === undefined) return
    const { deployment, replica } = locked
    const detail = action.isFailure ? await explainFailure(app, tx, replica) : null
    await endReplica(tx, deployment, replica, { ...action, detail })
    if (replica.ready_at === null) started = action.isFailure ? 'failed' : 'cancelled'
    if (!action.isFailure) return
    const failures = deployment.failures + 1
    await store.updateManaged(tx, deployment.id, { failures, failed_at: tx.clock.now() })
    const hasOther = deployment.ready_version !== null && deployment.ready_version !== deployment.version
    const isOver = replica.version !== deployment.version || deployment.failed_reason !== null
    const reason = replica.status_reason ?? action.why
    const facts = { version: deployment.version, failures, reason, ...(detail === null ? {} : { detail }) }
    if (isOver) return
    if (!isGivenUp(failures, hasOther)) {
      const retrySeconds = backOffMs(failures) / SECOND_MS
      if (failures < TOLD_FAILURES) return
      return tellDeploymentEvent(tx, deployment, 'deployment.backing_off', 'starts', { ...facts, retrySeconds })
    }
    // The version that keeps serving starts without failures.
    await store.updateManaged(tx, deployment.id, { failures: 0, failed_at: null })
    await store.failVersion(tx, deployment.id, deployment.version, { reason, detail })
    const servingVersion = hasOther ? deployment.ready_version : null
    recordDeploymentEvent(tx, deployment, 'deployment.failed', { ...facts, servingVersion })
  })
  if (started !== undefined) app.replicaStart?.(snapshot.model, started)
}

/** Returns the output of the replica, or that of its version's last failed replica, which has arrived by now. */
async function explainFailure(app: App, tx: Tx, replica: Replica): Promise<string | null> {
  const recent = await listReplicas(tx.db, [replica.deployment_id], addMs(tx.clock.now(), -HOUR_MS))
  const alike = recent.filter(
    (one) => one.version === replica.version && one.ready_at === null && one.id !== replica.id,
  )
  for (const one of [replica, ...alike.slice(0, 2)]) {
    const text = await explainReplica(app, one)
    if (text !== null) return text
  }
  return null
}
