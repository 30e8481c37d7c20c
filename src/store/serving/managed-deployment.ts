/** Managed deployments and their versions. Replicas and the load of gateways are in store/serving/replica.ts. */
import { sql, type Selectable } from 'kysely'
import { toDate, toDateOrNull, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import {
  deploymentSettings,
  deploymentSpec,
  type DeploymentSettings,
  type DeploymentSpec,
} from '../../contract/managed-deployment.ts'
import type { ModelKind } from '../../domain/inference.ts'
import type { ScalingReason, ScalingState } from '../../domain/scaling.ts'
import type { Told } from '../../domain/serving.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { DueWork } from '../platform/due-work.ts'
import { withDefaults } from '../platform/stored-json.ts'
import type { Tables } from '../platform/tables.ts'

export type ManagedRow = Selectable<Tables['managed_deployment']>

/** A row with its model and its newest version. */
export interface ManagedDeployment extends ManagedRow {
  readonly kind: ModelKind
  readonly shared_with: readonly string[]
  readonly spec: DeploymentSpec
  /** The newest version was given up for this reason. null: it was not. */
  readonly failed_reason: string | null
  readonly failed_detail: string | null
}

/** A wake-up of the loop that serves them. */
export const SERVE_WAKE = 'serve'

function select(db: Db) {
  return db
    .selectFrom('managed_deployment as d')
    .innerJoin('deployment_version as v', (join) =>
      join.onRef('v.deployment_id', '=', 'd.id').onRef('v.version', '=', 'd.version'),
    )
    .innerJoin('model as m', 'm.name', 'd.model')
    .selectAll('d')
    .select(['m.kind', 'm.shared_with', 'v.spec', 'v.failed_reason', 'v.failed_detail'])
}

/** The oldest come first. `accountId` undefined: all. */
export async function listManaged(db: Db, accountId?: string): Promise<ManagedDeployment[]> {
  const all = select(db).orderBy('d.created_at').orderBy('d.id').limit(limits.models)
  const rows = await (accountId === undefined ? all : all.where('d.account_id', '=', accountId)).execute()
  return rows.map(complete)
}

function complete(row: ManagedDeployment): ManagedDeployment {
  const { spec, settings } = row
  return { ...row, spec: withDefaults(deploymentSpec, spec), settings: withDefaults(deploymentSettings, settings) }
}

/** Whether there is a deployment to serve, or money of the house that may remain in an account. */
export const hasManaged: DueWork = () =>
  sql`(exists (select from managed_deployment) or exists (select from house_money where given_nano <> 0))`

export async function findManaged(db: Db, id: string): Promise<ManagedDeployment | undefined> {
  const row = await select(db).where('d.id', '=', id).executeTakeFirst()
  return row === undefined ? undefined : complete(row)
}

export async function findManagedOfModel(db: Db, model: string): Promise<ManagedRow | undefined> {
  return db.selectFrom('managed_deployment').selectAll().where('model', '=', model).executeTakeFirst()
}

/** Serializes changes of a deployment and its replicas. Lock it before the account's balances. */
export async function lockManaged(tx: Tx, id: string): Promise<ManagedDeployment | undefined> {
  const row = await tx.db
    .selectFrom('managed_deployment')
    .select('id')
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  return row === undefined ? undefined : findManaged(tx.db, id)
}

export async function countManaged(db: Db, accountId: string): Promise<number> {
  const row = await db
    .selectFrom('managed_deployment')
    .select(sql<number>`count(*)::integer`.as('deployments'))
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return row.deployments
}

export async function insertManaged(
  tx: Tx,
  deployment: Pick<
    ManagedRow,
    'id' | 'account_id' | 'person_id' | 'api_key_id' | 'model' | 'is_public' | 'owns_model'
  > & { readonly settings: DeploymentSettings; readonly scaling: ScalingState; readonly spec: DeploymentSpec },
): Promise<void> {
  const { settings, scaling, spec, ...row } = deployment
  const now = toDate(tx.clock.now())
  await tx.db
    .insertInto('managed_deployment')
    .values({
      ...row,
      settings: JSON.stringify(settings),
      scaling: JSON.stringify(scaling),
      created_at: now,
      updated_at: now,
    })
    .execute()
  await insertVersion(tx, deployment.id, 1, spec)
  tx.wake.add(SERVE_WAKE)
}

async function insertVersion(tx: Tx, id: string, version: number, spec: DeploymentSpec): Promise<void> {
  await tx.db
    .insertInto('deployment_version')
    .values({ deployment_id: id, version, spec: JSON.stringify(spec), created_at: toDate(tx.clock.now()) })
    .execute()
}

/** A new version starts without the failures of the one before it. */
export async function addVersion(tx: Tx, id: string, spec: DeploymentSpec, inPlace: boolean): Promise<number> {
  const { version } = await tx.db
    .updateTable('managed_deployment')
    .set({
      version: sql`version + 1`,
      in_place: inPlace,
      failures: 0,
      failed_at: null,
      blocked_reason: null,
      blocked_detail: null,
      blocked_at: null,
      updated_at: toDate(tx.clock.now()),
    })
    .where('id', '=', id)
    .returning('version')
    .executeTakeFirstOrThrow()
  await insertVersion(tx, id, version, spec)
  tx.wake.add(SERVE_WAKE)
  return version
}

export async function readVersion(
  db: Db,
  id: string,
  version: number,
): Promise<{ spec: DeploymentSpec; failed_reason: string | null } | undefined> {
  const row = await db
    .selectFrom('deployment_version')
    .select(['spec', 'failed_reason'])
    .where('deployment_id', '=', id)
    .where('version', '=', version)
    .executeTakeFirst()
  return row === undefined ? undefined : { ...row, spec: withDefaults(deploymentSpec, row.spec) }
}

/** Gives up the rollout of a version. */
export async function failVersion(
  tx: Tx,
  id: string,
  version: number,
  failure: { readonly reason: string; readonly detail: string | null },
): Promise<void> {
  await tx.db
    .updateTable('deployment_version')
    .set({ failed_reason: failure.reason, failed_detail: failure.detail })
    .where('deployment_id', '=', id)
    .where('version', '=', version)
    .execute()
}

export interface ManagedChange {
  readonly settings?: DeploymentSettings
  readonly scaling?: ScalingState
  readonly scaling_why?: ScalingReason
  readonly ready_version?: number
  readonly failures?: number
  readonly failed_at?: Instant | null
  readonly blocked?: { readonly reason: string; readonly detail: string; readonly at: Instant } | null
  readonly deleted_at?: Instant
  readonly told?: Told
}

export async function updateManaged(tx: Tx, id: string, change: ManagedChange): Promise<void> {
  const { settings, scaling, blocked, failed_at, deleted_at, told: newsTimes, ...columns } = change
  await tx.db
    .updateTable('managed_deployment')
    .set({
      ...columns,
      ...(settings === undefined ? {} : { settings: JSON.stringify(settings), updated_at: toDate(tx.clock.now()) }),
      ...(scaling === undefined ? {} : { scaling: JSON.stringify(scaling) }),
      ...(newsTimes === undefined ? {} : { told: JSON.stringify(newsTimes) }),
      ...(failed_at === undefined ? {} : { failed_at: toDateOrNull(failed_at) }),
      ...(deleted_at === undefined ? {} : { deleted_at: toDate(deleted_at) }),
      ...(blocked === undefined
        ? {}
        : {
            blocked_reason: blocked?.reason ?? null,
            blocked_detail: blocked?.detail ?? null,
            blocked_at: toDateOrNull(blocked?.at ?? null),
          }),
    })
    .where('id', '=', id)
    .execute()
}

/** Shares a model and the adapters that follow it. */
export async function shareModel(
  tx: Tx,
  { id, model }: Pick<ManagedRow, 'id' | 'model'>,
  accounts: readonly string[],
): Promise<void> {
  await tx.db
    .updateTable('model')
    .set({ shared_with: [...accounts] })
    .where((where) =>
      where.or([
        where('name', '=', model),
        where.and([where('adapter_of', '=', id), where('follows_base_sharing', '=', true)]),
      ]),
    )
    .execute()
}

/** Deletes it with its versions and replicas; their rentals stay. */
export async function deleteManaged(tx: Tx, { id, model, owns_model }: ManagedRow): Promise<void> {
  await tx.db.deleteFrom('managed_deployment').where('id', '=', id).execute()
  await sql`delete from gateway_load where model = ${model}`.execute(tx.db)
  if (owns_model) await tx.db.deleteFrom('model').where('name', '=', model).execute()
}
