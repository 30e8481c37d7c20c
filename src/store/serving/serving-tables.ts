/** The tables of managed deployments (schema/0036_managed_deployments.sql) as types; see store/platform/tables.ts. */
import type { ColumnType } from 'kysely'
import type { DeploymentSettings, DeploymentSpec, ReplicaState } from '../../contract/managed-deployment.ts'
import type { ScalingReason, ScalingState } from '../../domain/scaling.ts'
import type { ReplicaEndpoint, Told } from '../../domain/serving.ts'
import type { At, AtOrNull, Counted, Json, OrNull } from '../platform/column.ts'

/** By replica: requests in flight, and whether the gateway sends it nothing new. */
export type ReplicaLoads = Readonly<Record<string, { readonly inFlight: number; readonly isUnrouted: boolean }>>

export interface ServingTables {
  managed_deployment: {
    id: string
    account_id: string
    person_id: string
    api_key_id: string
    model: string
    is_public: boolean
    owns_model: boolean
    settings: Json<DeploymentSettings>
    version: Counted
    ready_version: OrNull<number>
    in_place: ColumnType<boolean, boolean | undefined, boolean>
    scaling: Json<ScalingState>
    scaling_why: ColumnType<ScalingReason, ScalingReason | undefined, ScalingReason>
    failures: Counted
    failed_at: AtOrNull
    blocked_reason: OrNull<string>
    blocked_detail: OrNull<string>
    blocked_at: AtOrNull
    created_at: At
    updated_at: At
    deleted_at: AtOrNull
    told: ColumnType<Told, string | undefined, string>
  }
  deployment_version: {
    deployment_id: string
    version: number
    spec: Json<DeploymentSpec>
    failed_reason: OrNull<string>
    failed_detail: OrNull<string>
    created_at: At
  }
  replica: {
    id: string
    deployment_id: string
    version: number
    rental_id: number
    endpoint: Json<ReplicaEndpoint>
    key_sealed: string
    state: ReplicaState
    reason: OrNull<string>
    detail: OrNull<string>
    created_at: At
    loaded_at: AtOrNull
    ready_at: AtOrNull
    draining_at: AtOrNull
    ended_at: AtOrNull
  }
  gateway_load: {
    gateway_id: string
    model: string
    outstanding: number
    current: number
    replicas: Json<ReplicaLoads>
    active_at: AtOrNull
    at: At
  }
}
