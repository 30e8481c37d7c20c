/** Managed deployments over HTTP. */
import type { Actor, App } from '../../app/app.ts'
import { freeStartLeft } from '../../app/serving/free-start.ts'
import { createOnce } from '../../app/idempotency.ts'
import {
  changeManagedDeployment,
  createManagedDeployment,
  deleteManagedDeployment,
  findDeployment,
  listDeployments,
  rolloutManagedDeployment,
} from '../../app/serving/managed-deployment.ts'
import { catalogOf, resolveSpec } from '../../app/serving/catalog.ts'
import { named } from '../../app/serving/model.ts'
import { explainReplica } from '../../app/serving/replica.ts'
import { quoteReplica } from '../../app/serving/replica-quote.ts'
import { addMs, DAY_MS } from '../../base/instant.ts'
import { nanoUsdOf } from '../../base/money.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { settingsOf, type DeploymentSpec } from '../../contract/managed-deployment.ts'
import { ok } from '../../contract/result.ts'
import { withCatalogDefaults } from '../../domain/catalog.ts'
import { coldStartOf } from '../../domain/cold-start.ts'
import { deploymentStatusOf, LOAD_MS } from '../../domain/serving.ts'
import { transact, type Db } from '../../store/platform/database.ts'
import type { ManagedDeployment } from '../../store/serving/managed-deployment.ts'
import { listAdapters } from '../../store/model/model.ts'
import { listReplicas, readLoads, type ModelLoad, type Replica } from '../../store/serving/replica.ts'
import type { Handlers } from '../http/handler.ts'

type Wire = ResponseOf<Api['getManagedDeployment']>

export const managedDeploymentHandlers = {
  listManagedDeployments: async (app, { actor }) => {
    const deployments = await listDeployments(app.database.db, actor)
    const records = await onWire(app, app.database.db, deployments)
    return ok({ deployments: records.map((one) => ({ ...one, replicas: undefined })) })
  },

  getManagedDeployment: async (app, { actor, params }) => {
    const deployment = await findDeployment(app.database.db, actor, params.id)
    if (!deployment.ok) return deployment
    return ok(await withOutput(app, await oneOnWire(app, app.database.db, deployment.value), actor))
  },

  createManagedDeployment: (app, { actor, body, operation, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const resolved = await resolveSpec(app, tx.db, body)
      if (!resolved.ok) return resolved
      const { modelId, spec, kind, ...facts } = resolved.value
      const name = body.forEveryone === true ? { model: body.model ?? modelId } : { name: body.name ?? modelId }
      // The order's own values come before those of the catalog.
      const order = { ...facts, ...named(body), ...name, spec, kind, settings: settingsOf(body) }
      const created = await createManagedDeployment(tx, actor, order)
      return created.ok ? ok(await oneOnWire(app, tx.db, created.value)) : created
    }),

  quoteManagedDeployment: async (app, { actor, body }) => {
    const { forEveryone = false } = body
    const resolved = await resolveSpec(app, app.database.db, body)
    if (!resolved.ok) return resolved
    const { spec, kind } = resolved.value
    const quoted = await quoteReplica(app, app.database.db, actor, { spec, kind, forEveryone })
    if (!quoted.ok) return quoted
    const { machine, costPerHour, kvTokens } = quoted.value
    return ok({
      costPerHourUsd: costPerHour,
      gpuModel: machine.gpu_model,
      region: machine.region,
      node: machine.id,
      gpuCount: spec.gpus.count,
      kvTokens,
      freeStartMinutesLeft: forEveryone ? 0 : await freeStartLeft(app, app.database.db, actor.accountId),
    })
  },

  changeManagedDeployment: async (app, { actor, params, body }) => {
    const { sharedWith, ...changes } = body
    const changed = await transact(app.database, (tx) =>
      changeManagedDeployment(tx, actor, params.id, { settings: named(changes), sharedWith }),
    )
    return changed.ok ? ok(await oneOnWire(app, app.database.db, changed.value)) : changed
  },

  rolloutManagedDeployment: async (app, { actor, params, body }) => {
    const { inPlace = false, ...order } = body
    const changed = await transact(app.database, (tx) =>
      rolloutManagedDeployment(tx, actor, params.id, { spec: withDefaults(app, named(order)), inPlace }),
    )
    return changed.ok ? ok(await oneOnWire(app, app.database.db, changed.value)) : changed
  },

  deleteManagedDeployment: async (app, { actor, params }) => {
    const deleted = await transact(app.database, (tx) => deleteManagedDeployment(tx, actor, params.id))
    return deleted.ok ? ok({ message: 'The deployment ends when its replicas have finished their requests' }) : deleted
  },
} satisfies Partial<Handlers>

function withDefaults(app: App, { recipe, ...spec }: Partial<DeploymentSpec>): Partial<DeploymentSpec> {
  return recipe === undefined ? spec : { ...spec, recipe: withCatalogDefaults(catalogOf(app).file, recipe) }
}

async function oneOnWire(app: App, db: Db, deployment: ManagedDeployment): Promise<Wire> {
  const [one] = await onWire(app, db, [deployment])
  if (one === undefined) throw new Error(`deployment ${deployment.id} is not shown`)
  return one
}

const MAX_EXPLAINED = 5

/** Adds the last output of replicas that failed to start. */
async function withOutput(app: App, deployment: Wire, { accountId }: Pick<Actor, 'accountId'>): Promise<Wire> {
  const failed = deployment.replicas.filter(({ state, readyAt }) => state === 'ended' && readyAt === null)
  const texts = new Map<string, string | null>()
  for (const { id, rentalId, detail } of failed.slice(0, MAX_EXPLAINED)) {
    texts.set(id, await explainReplica(app, { rental_id: rentalId, account_id: accountId, detail }))
  }
  return {
    ...deployment,
    replicas: deployment.replicas.map((one) => ({ ...one, detail: texts.get(one.id) ?? one.detail })),
  }
}

async function onWire(app: App, db: Db, deployments: readonly ManagedDeployment[]): Promise<Wire[]> {
  const now = app.clock.now()
  const ids = deployments.map(({ id }) => id)
  const replicas = await listReplicas(db, ids, addMs(now, -DAY_MS))
  const adapters = await listAdapters(db, ids)
  const loads = deployments.length === 0 ? [] : await readLoads(db, addMs(now, -LOAD_MS))
  return deployments.map((one) =>
    deploymentOnWire(
      one,
      replicas.filter(({ deployment_id }) => deployment_id === one.id),
      loads.filter(({ model }) => model === one.model),
      adapters.filter(({ adapter_of }) => adapter_of === one.id).map(({ name }) => name),
    ),
  )
}

function deploymentOnWire(
  deployment: ManagedDeployment,
  replicas: readonly Replica[],
  loads: readonly ModelLoad[],
  adapters: readonly string[],
): Wire {
  const living = replicas.filter(({ state }) => state !== 'ended')
  const count = (state: Replica['state']): number => living.filter((one) => one.state === state).length
  const { status, message } = deploymentStatusOf({
    isDeleted: deployment.deleted_at !== null,
    ready: count('ready'),
    starting: count('starting'),
    desired: deployment.scaling.desired,
    failed: failureOf(deployment),
    blocked: deployment.blocked_detail,
    startingDetail: living.find(({ state, detail }) => state === 'starting' && detail !== null)?.detail ?? null,
  })
  const outstanding = loads.reduce((sum, one) => sum + one.outstanding, 0)
  return {
    id: deployment.id,
    model: deployment.model,
    kind: deployment.kind,
    adapters: [...adapters],
    visibility: deployment.is_public ? 'everyone' : 'private',
    sharedWith: [...deployment.shared_with],
    status,
    message,
    version: deployment.version,
    readyVersion: deployment.ready_version,
    rollout: rolloutOf(deployment),
    desiredReplicas: deployment.scaling.desired,
    scalingReason: deployment.scaling_why,
    readyReplicas: count('ready'),
    outstandingRequests: Math.round(outstanding * 100) / 100,
    costPerHourUsd: nanoUsdOf(living.reduce((sum, { cost_per_hour }) => sum + cost_per_hour, 0n)),
    spec: deployment.spec,
    settings: deployment.settings,
    replicas: replicas.map((one) => replicaOnWire(one, loads)),
    createdAt: deployment.created_at,
    updatedAt: deployment.updated_at,
  }
}

function failureOf({ failed_reason, failed_detail }: ManagedDeployment): string | null {
  return failed_reason === null ? null : (failed_detail ?? failed_reason)
}

function rolloutOf({ version, ready_version, failed_reason }: ManagedDeployment): Wire['rollout'] {
  if (failed_reason !== null) return 'failed'
  return version === ready_version || ready_version === null ? 'done' : 'in_progress'
}

function replicaOnWire(one: Replica, loads: readonly ModelLoad[]): Wire['replicas'][number] {
  return {
    id: one.id,
    version: one.version,
    state: one.state,
    reason: one.reason,
    detail: one.detail,
    rentalId: one.rental_id,
    rentalName: one.rental_name,
    rentalStatus: one.status,
    node: one.node,
    gpuModel: one.gpu_model,
    costPerHourUsd: one.cost_per_hour,
    inFlight: loads.reduce((sum, { replicas }) => sum + (replicas[one.id]?.inFlight ?? 0), 0),
    createdAt: one.created_at,
    startedAt: one.started_at,
    readyAt: one.ready_at,
    endedAt: one.ended_at,
    coldStart: coldStartOf({
      createdAt: one.created_at,
      askedAt: one.create_asked_at,
      startedAt: one.started_at,
      loadedAt: one.loaded_at,
      readyAt: one.ready_at,
    }),
  }
}
