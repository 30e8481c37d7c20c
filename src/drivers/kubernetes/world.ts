/** The driver needs to know more about orders than a call tells: it is in the database (server/kubernetes-world.ts). */
import type { Program } from '../../contract/agent.ts'

export interface KubernetesWorld {
  /** The account of the order, and its program with values in place of secrets. undefined: there is no such order. */
  orderOf(tag: string): Promise<Order | undefined>
  /** Orders that the provider may still run. */
  listOrders(tagPrefix: string): Promise<KnownOrder[]>
  /** The account that owns the volume. undefined: there is no such volume. */
  accountOfVolume(tag: string): Promise<string | undefined>
  /** Volumes that the provider may have. */
  listVolumes(tagPrefix: string): Promise<KnownVolume[]>
  /** Reserves public ports for these ports of a machine, and returns them by those. 0 is SSH. */
  openPorts(tag: string, ports: readonly number[]): Promise<ReadonlyMap<number, number>>
  /** Keeps the last output of a machine that is being removed. */
  saveLog(tag: string, text: string): Promise<void>
}

export interface Order {
  readonly accountId: string
  readonly program: Program
  /** `Authorization` with which its pod downloads its weights. Absent: it has none. */
  readonly downloadAs?: string
}

export interface KnownOrder {
  readonly tag: string
  readonly accountId: string
  /** null: the answer to its create is not known yet. */
  readonly externalId: string | null
  readonly machineId: string
  readonly clusterName: string
  /** It was to be created and is not wanted any more. */
  readonly isEnding: boolean
}

export interface KnownVolume {
  readonly tag: string
  /** null: the answer to its create is not known yet. */
  readonly externalId: string | null
  /** The machine that it was ordered for. */
  readonly machineId: string | null
}
