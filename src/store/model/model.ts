/**
 * The registry of models and their deployments. Gateways read all of it in one query and so see one consistent state.
 * Triggers notify every server of a committed change (schema/baseline/15_model.sql).
 */
import { sql, type Insertable, type Selectable, type Updateable } from 'kysely'
import { parseInstant, toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import type { ModelPrices } from '../../domain/inference.ts'
import type { ReplicaEndpoint } from '../../domain/serving.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export const MODELS_CHANNEL = 'berth_models'

export type Model = Selectable<Tables['model']>
export type Deployment = Selectable<Tables['deployment']>
export interface ModelWithDeployments extends Model {
  readonly deployments: readonly Deployment[]
  /** The replicas of a managed deployment that answer. */
  readonly replicas: readonly ServingReplica[]
  /** null: nothing starts it on demand. */
  readonly managed: ManagedFacts | null
}

export function pricesOf(model: Model): ModelPrices {
  return {
    input: model.input_nano,
    cached: model.cached_nano,
    output: model.output_nano,
    pixelStep: model.pixel_step_nano,
    character: model.character_nano,
    soundMs: model.sound_ms_nano,
  }
}

/** A replica as a gateway needs it. */
export interface ServingReplica {
  readonly id: string
  readonly state: 'ready' | 'draining'
  readonly endpoint: ReplicaEndpoint
  readonly key_sealed: string
  readonly host_id: string
  readonly workload_id: string
}

export interface ManagedFacts {
  readonly queue_seconds: number
  readonly max_replicas: number
  readonly is_deleted: boolean
  /** The newest version is not tried again, and there is no older one to fall back to. */
  readonly is_given_up: boolean
  /** The model of the deployment: the base model of an adapter. */
  readonly model: string
}

/** A deployment as JSON. */
type DeploymentJson = Omit<Deployment, 'created_at' | 'drained_at'> & {
  readonly created_at: string
  readonly drained_at: string | null
}

/** The managed deployment of a model, or of the base model of an adapter. */
const servedBy = sql`coalesce(model.adapter_of, (select o.id from managed_deployment o where o.model = model.name))`

function selectModels(db: Db) {
  return db
    .selectFrom('model')
    .selectAll()
    .select(
      sql<DeploymentJson[]>`(
        select coalesce(jsonb_agg(to_jsonb(d) order by d.created_at, d.id), '[]')
        from deployment d where d.model = model.name
      )`.as('deployment_rows'),
    )
    .select(
      sql<ServingReplica[]>`(
        select coalesce(jsonb_agg(jsonb_build_object('id', p.id, 'state', p.state, 'endpoint', p.endpoint,
          'key_sealed', p.key_sealed, 'host_id', r.spec #>> '{nodes,0,machineId}', 'workload_id', r.external_id)
          order by p.created_at, p.id), '[]')
        from managed_deployment d join replica p on p.deployment_id = d.id join rental r on r.id = p.rental_id
        where d.id = ${servedBy} and p.state in ('ready', 'draining') and r.external_id is not null
      )`.as('replicas'),
    )
    .select(
      sql<ManagedFacts | null>`(
        select jsonb_build_object('queue_seconds', d.settings -> 'queueSeconds',
          'max_replicas', d.settings #> '{replicas,max}', 'is_deleted', d.deleted_at is not null,
          'is_given_up', v.failed_reason is not null and (coalesce(d.ready_version, d.version) = d.version
            or model.adapter_of is not null and not exists (select 1 from replica p where p.deployment_id = d.id
              and p.version = d.ready_version and p.endpoint -> 'adapters' @> jsonb_build_array(jsonb_build_object('name', model.name)))),
          'model', d.model)
        from managed_deployment d join deployment_version v on v.deployment_id = d.id and v.version = d.version
        where d.id = ${servedBy}
      )`.as('managed'),
    )
}

function withInstants({
  deployment_rows,
  ...model
}: Omit<ModelWithDeployments, 'deployments'> & { deployment_rows: DeploymentJson[] }): ModelWithDeployments {
  return {
    ...model,
    deployments: deployment_rows.map((row) => ({
      ...row,
      created_at: instantOfJson(row.created_at),
      drained_at: row.drained_at === null ? null : instantOfJson(row.drained_at),
    })),
  }
}

function instantOfJson(text: string): Instant {
  const at = parseInstant(text)
  if (at === undefined) throw new Error(`not a time: ${text}`)
  return at
}

/** The whole registry, oldest first. */
export async function readRegistry(db: Db): Promise<ModelWithDeployments[]> {
  const rows = await selectModels(db).orderBy('created_at').orderBy('name').execute()
  return rows.map(withInstants)
}

export async function findModel(db: Db, name: string): Promise<ModelWithDeployments | undefined> {
  const row = await selectModels(db).where('name', '=', name).executeTakeFirst()
  return row === undefined ? undefined : withInstants(row)
}

/** Serializes changes of a model and its deployments. */
export async function lockModel(tx: Tx, name: string): Promise<Model | undefined> {
  return tx.db.selectFrom('model').selectAll().where('name', '=', name).forUpdate().executeTakeFirst()
}

export async function countModels(db: Db): Promise<number> {
  const row = await db
    .selectFrom('model')
    .select(sql<number>`count(*)::integer`.as('models'))
    .executeTakeFirstOrThrow()
  return row.models
}

/** False: the name is taken. */
export async function insertModel(tx: Tx, model: Omit<Insertable<Tables['model']>, 'created_at'>): Promise<boolean> {
  const row = await tx.db
    .insertInto('model')
    .values({ ...model, created_at: toDate(tx.clock.now()) })
    .onConflict((conflict) => conflict.doNothing())
    .returning('name')
    .executeTakeFirst()
  return row !== undefined
}

export async function updateModel(tx: Tx, name: string, change: Updateable<Tables['model']>): Promise<void> {
  await tx.db.updateTable('model').set(change).where('name', '=', name).execute()
}

export interface AdapterModel {
  readonly name: string
  /** undefined: those of the base model. */
  readonly sharedWith: readonly string[] | undefined
}

/** The adapter gets what it does not have of its own from the base model. False: the name is taken. */
export async function insertAdapter(tx: Tx, base: Model, deploymentId: string, adapter: AdapterModel, owner: string) {
  const { created_at: _, engine: __, files: ___, ...facts } = base
  return insertModel(tx, {
    ...facts,
    name: adapter.name,
    engine: null,
    adapter_of: deploymentId,
    follows_base_price: true,
    ...sharingOf(base, adapter, owner),
  })
}

/** A restricted adapter of a model for everyone belongs to the account that pays for the deployment. */
function sharingOf(base: Model, { sharedWith }: AdapterModel, owner: string) {
  if (sharedWith === undefined) {
    return { follows_base_sharing: true, account_id: base.account_id, shared_with: [...base.shared_with] }
  }
  return { follows_base_sharing: false, account_id: base.account_id ?? owner, shared_with: [...sharedWith] }
}

export async function shareAdapter(tx: Tx, base: Model, adapter: AdapterModel, owner: string): Promise<void> {
  await updateModel(tx, adapter.name, sharingOf(base, adapter, owner))
}

export async function listAdapters(db: Db, deploymentIds: readonly string[]): Promise<Model[]> {
  if (deploymentIds.length === 0) return []
  const rows = db
    .selectFrom('model')
    .selectAll()
    .where('adapter_of', 'in', [...deploymentIds])
  return rows.orderBy('created_at').orderBy('name').execute()
}

/** Adapters that have no prices of their own get those of the base model. */
export async function passPricesOn(tx: Tx, base: string): Promise<void> {
  await sql`update model a set input_nano = b.input_nano, cached_nano = b.cached_nano, output_nano = b.output_nano,
      pixel_step_nano = b.pixel_step_nano, character_nano = b.character_nano,
      batch_discount_percent = b.batch_discount_percent,
      sound_ms_nano = b.sound_ms_nano
    from model b join managed_deployment d on d.model = b.name
    where b.name = ${base} and a.adapter_of = d.id and a.follows_base_price`.execute(tx.db)
}

/** Deletes its deployments too. */
export async function deleteModel(tx: Tx, name: string): Promise<boolean> {
  const row = await tx.db.deleteFrom('model').where('name', '=', name).returning('name').executeTakeFirst()
  return row !== undefined
}

/** Call it under `lockModel`. */
export async function countDeployments(tx: Tx, model: string): Promise<number> {
  const row = await tx.db
    .selectFrom('deployment')
    .select(sql<number>`count(*)::integer`.as('deployments'))
    .where('model', '=', model)
    .executeTakeFirstOrThrow()
  return row.deployments
}

export async function insertDeployment(
  tx: Tx,
  deployment: Omit<Insertable<Tables['deployment']>, 'created_at'>,
): Promise<Deployment> {
  return tx.db
    .insertInto('deployment')
    .values({ ...deployment, created_at: toDate(tx.clock.now()) })
    .returningAll()
    .executeTakeFirstOrThrow()
}

export async function lockDeployment(tx: Tx, id: string): Promise<Deployment | undefined> {
  return tx.db.selectFrom('deployment').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
}

export type DeploymentChange = Partial<
  Omit<Deployment, 'id' | 'model' | 'protocol' | 'created_at' | 'drained_at'> & { drained_at: Instant | null }
>

export async function updateDeployment(
  tx: Tx,
  id: string,
  { drained_at, ...change }: DeploymentChange,
): Promise<Deployment> {
  return tx.db
    .updateTable('deployment')
    .set({ ...change, ...(drained_at === undefined ? {} : { drained_at: toDateOrNull(drained_at) }) })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

export async function deleteDeployment(tx: Tx, id: string): Promise<Deployment | undefined> {
  return tx.db.deleteFrom('deployment').where('id', '=', id).returningAll().executeTakeFirst()
}

/** Notes that a bundled model was offered. False: it was offered before. */
export async function noteOffered(tx: Tx, name: string): Promise<boolean> {
  const row = await tx.db
    .insertInto('offered_model')
    .values({ name, at: toDate(tx.clock.now()) })
    .onConflict((conflict) => conflict.doNothing())
    .returning('name')
    .executeTakeFirst()
  return row !== undefined
}
