/**
 * Gives the driver facts about orders that a call does not contain; they are in the database
 * (server/kubernetes-world.ts).
 */
import type { Program } from '../../contract/agent.ts'

export interface KubernetesWorld {
  /** The account of the order, and its program with the values of its secrets. undefined: there is no such order. */
  orderOf(tag: string): Promise<Order | undefined>
  /** Orders that may still run at the provider. */
  listOrders(tagPrefix: string): Promise<KnownOrder[]>
  /** The account that owns the volume. undefined: there is no such volume. */
  accountOfVolume(tag: string): Promise<string | undefined>
  /** Volumes that may exist at the provider. */
  listVolumes(tagPrefix: string): Promise<KnownVolume[]>
  /**
   * Reserves a public port for each of these ports of a machine, and returns the public ports by the machine's. 0 is
   * SSH.
   */
  openPorts(tag: string, ports: readonly number[]): Promise<ReadonlyMap<number, number>>
  /** Keeps the last output of a machine that is being removed. */
  saveLog(tag: string, text: string): Promise<void>
}

export interface Order {
  readonly accountId: string
  readonly program: Program
  /** The `Authorization` header with which the pod downloads its weights. Absent: the pod has no weights. */
  readonly downloadAs?: string
}

export interface KnownOrder {
  readonly tag: string
  readonly accountId: string
  /** null: the answer to the create is not known yet. */
  readonly externalId: string | null
  readonly machineId: string
  readonly clusterName: string
  /** The order was canceled before the answer to its create was known. */
  readonly isEnding: boolean
}

export interface KnownVolume {
  readonly tag: string
  /** null: the answer to the create is not known yet. */
  readonly externalId: string | null
  /** The machine that the volume was ordered for. */
  readonly machineId: string | null
}
