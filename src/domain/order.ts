/** An order: spec, term, limits, and candidate machines. */
import type { Instant } from '../base/instant.ts'
import { costOfSpan, type NanoUsd } from '../base/money.ts'
import type { AfterInterruption } from '../contract/interruption.ts'
import type { ProviderId } from '../contract/provider-data.ts'
import type { IdleRule, OrderOptions, VolumeMount } from '../contract/workload.ts'
import type { Commitment } from './commitment.ts'
import { HOLD_COVERS_MS } from './metering.ts'
import type { RentalSpec } from './rental.ts'
import type { Term } from './term.ts'

export interface Order {
  readonly spec: OrderSpec
  readonly term: OrderTerm
  readonly guards: Guards
  /** The candidates, tried from the first to the last. */
  readonly places: readonly Place[]
  /** Describes the order in the error message when no place has room. */
  readonly summary: OrderSummary
  /** The machine accepts the account's SSH keys and `extraKey`. 'none': nobody can log in. */
  readonly ssh: 'none' | { readonly extraKey: string | undefined }
  readonly mounts: readonly VolumeMount[]
  /** The time at which the rental is stopped. null: never. */
  readonly stopAt: Instant | null
  readonly idle: IdleRule | null
  /** Names of the secrets that the options refer to. */
  readonly secretNames: readonly string[]
  /** An object that the customer attached to the rental. null: none. */
  readonly metadata: Readonly<Record<string, unknown>> | null
  /** null: it cannot be interrupted. */
  readonly interruptible: InterruptibleTerms | null
  /** The interruption that provides the GPUs. null: none is needed. */
  readonly interruption: OrderInterruption | null
}

/** The terms of a rental that can be interrupted, as of the order. */
export interface InterruptibleTerms {
  readonly noticeSeconds: number
  readonly after: AfterInterruption
}

export interface OrderInterruption {
  readonly machineId: string
  /** The rentals to interrupt. They are locked. */
  readonly rentalIds: readonly number[]
  /** The seconds until the GPUs are available: the notice and the stop. */
  readonly waitSeconds: number
}

export interface OrderSummary {
  readonly gpus: string
  readonly where: string
  /**
   * The seconds that the order would wait for interruptible rentals to give up their GPUs. Absent: waiting does not
   * help.
   */
  readonly waitSeconds?: number
}

/** The spec of an order lacks the fields that are assigned with the GPUs, and the account's SSH keys. */
export type OrderSpec = Omit<RentalSpec, 'name' | 'clusterName' | 'nodes' | 'sshKeys' | 'monitoringEnabled'> & {
  readonly driver: ProviderId
  readonly monitoringEnabled: boolean | null
}

export interface OrderTerm extends Term {
  /** null: on demand. */
  readonly commitment: Commitment | null
  /** null: on demand. */
  readonly convertOnExpiry: boolean | null
}

/** Limits set by the customer. null: none. */
export interface Guards {
  readonly autoTerminateAt: Instant | null
  readonly spendingLimit: NanoUsd | null
  readonly maxCostPerHour: NanoUsd | null
}

/** The fields that orders of all kinds have in common, as the customer sent them. */
export interface OrderFields extends OrderOptions {
  readonly gpuCount: number
  readonly image?: OrderImage | null | undefined
  readonly label?: string | undefined
  readonly autoTerminateAt?: Instant | undefined
  readonly spendingLimitUsd?: NanoUsd | undefined
  readonly maxCostPerHourUsd?: NanoUsd | undefined
  readonly monitoringEnabled?: boolean | undefined
  readonly providerAccount?: string | undefined
  /** An SSH key for this rental alone. */
  readonly sshKey?: string | undefined
  /** Whether to take an interruptible rental, at its lower price. */
  readonly interruptible?: boolean | undefined
  readonly afterInterruption?: AfterInterruption | undefined
  /** The maximum wait for GPUs of interruptible rentals. Absent: the order does not wait. */
  readonly maxWaitSeconds?: number | undefined
}

/** An order for GPUs of a marketplace machine. */
export interface InstanceOrder extends OrderFields {
  readonly clusterName: string
  readonly nodeName: string
}

export interface OrderImage {
  readonly name: string
  readonly tag?: string | undefined
  readonly port?: number | undefined
  readonly ports?: readonly number[] | undefined
}

/** Machines that could serve an order together. */
export interface Place {
  readonly clusterName: string
  readonly machines: ReadonlyArray<{ readonly machineId: string; readonly gpus: number }>
}

/** The amount an order holds: the price of a reserved term, or the first hour on demand. */
export function holdOf(term: {
  readonly commitment: Pick<Commitment, 'total'> | null
  readonly costPerHour: NanoUsd
}): NanoUsd {
  return term.commitment?.total ?? costOfSpan(term.costPerHour, HOLD_COVERS_MS)
}
