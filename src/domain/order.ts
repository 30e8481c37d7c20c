/** An order: spec, term, limits, and candidate machines. */
import type { Instant } from '../base/instant.ts'
import { costOfSpan, type NanoUsd } from '../base/money.ts'
import type { ProviderId } from '../contract/provider-data.ts'
import type { OrderOptions } from '../contract/workload.ts'
import type { Commitment } from './commitment.ts'
import { HOLD_COVERS_MS } from './metering.ts'
import type { EngineSpec } from './rental.ts'
import type { Term } from './term.ts'

export interface Order {
  readonly spec: OrderSpec
  readonly term: OrderTerm
  readonly guards: Guards
  /** Tried in this order. */
  readonly places: readonly Place[]
  /** A replica of a managed deployment: it gets no SSH keys. */
  readonly isManaged?: boolean
  /** Added to those of the account. */
  readonly sshKey?: string | undefined
}

/** Without the fields assigned together with the GPUs, and without the account's SSH keys. */
export type OrderSpec = Omit<EngineSpec, 'name' | 'clusterName' | 'nodes' | 'sshKeys' | 'monitoringEnabled'> & {
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

/** An order for GPUs of a marketplace machine, as the customer sent it. */
export interface InstanceOrder extends OrderOptions {
  readonly clusterName: string
  readonly nodeName: string
  readonly gpuCount: number
  readonly image: {
    name: string
    tag?: string | undefined
    port?: number | undefined
    ports?: number[] | undefined
  } | null
  readonly label?: string | undefined
  readonly autoTerminateAt?: string | undefined
  readonly spendingLimitUsd?: string | undefined
  readonly maxCostPerHourUsd?: string | undefined
  /** An SSH key for this instance alone. */
  readonly sshKey?: string | undefined
  /** A replica of a managed deployment: nobody logs in to it. */
  readonly isManaged?: true
}

/** Machines that serve an order together. */
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
