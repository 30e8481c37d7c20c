/** Gives the cloud drivers the accounts of the operator and the orders at them (server/cloud-world.ts). */
import type { Program } from '../../contract/agent.ts'
import type { Instant } from '../../base/instant.ts'
import type { DriverVolume } from '../driver.ts'
import type { Credentials } from './cloud.ts'
import type { Turns } from './pacer.ts'

export interface CloudWorld {
  /**
   * The accounts at this vendor that are not removed. Suspended ones are included, since they may still run machines.
   */
  accounts(): Promise<CloudAccount[]>
  /** The program of an order, with the values of its secrets. undefined: there is no such order. */
  programOf(tag: string): Promise<Program | undefined>
  /** Orders that may still run at the provider. */
  listOrders(tagPrefix: string): Promise<KnownOrder[]>
  /** Volumes that should exist at the provider, with their ids there. */
  listVolumes(tagPrefix: string): Promise<DriverVolume[]>
  /** The turns of an account, shared by all servers. */
  turnsOf(account: CloudAccount): Turns
  /** Called after each listing of offers. `fault` undefined: the account answered. */
  report(account: CloudAccount, fault: AccountFault | undefined): Promise<void>
}

export interface CloudAccount {
  readonly id: string
  readonly name: string
  /** Changes with the credentials or the address. */
  readonly version: number
  readonly baseUrl: string
  readonly credentials: Credentials
  /** Maps the vendor's regions to ours, and overrides the mapping of the vendor. */
  readonly regions: Readonly<Record<string, string>>
  /** Placement prefers a higher value, and compares prices after it. */
  readonly preference: number
  /** Machines may be sold for less than they cost. */
  readonly sellsBelowCost: boolean
  /** Why the account takes no new orders. null: it takes them. */
  readonly closed: 'suspended' | 'spending_cap' | null
}

export interface AccountFault {
  /** `broken`: the operator must act, for example enter a new key. `stale`: it may recover by itself. */
  readonly kind: 'broken' | 'stale'
  readonly message: string
}

export interface KnownOrder {
  readonly tag: string
  /** null: the answer to the create is not known yet. */
  readonly externalId: string | null
  readonly machineId: string
  /** The order was canceled before the answer to its create was known. */
  readonly isEnding: boolean
  readonly seenAt?: Instant
}
