/** The cloud drivers need to know this: the accounts of the operator and the orders at them (server/cloud-world.ts). */
import type { Program } from '../../contract/agent.ts'
import type { Instant } from '../../base/instant.ts'
import type { DriverVolume } from '../driver.ts'
import type { Credentials } from './cloud.ts'
import type { Turns } from './pacer.ts'

export interface CloudWorld {
  /** The accounts at this vendor that are not removed, also suspended ones: they may still run machines. */
  accounts(): Promise<CloudAccount[]>
  /** The program of an order, with values in place of secrets. undefined: there is no such order. */
  programOf(tag: string): Promise<Program | undefined>
  /** Orders that the provider may still run. */
  listOrders(tagPrefix: string): Promise<KnownOrder[]>
  /** Volumes that the provider should have, with their ids there. */
  listVolumes(tagPrefix: string): Promise<DriverVolume[]>
  /** The turns of an account, shared by all servers. */
  turnsOf(account: CloudAccount): Turns
  /** Called after each listing of offers. `fault` undefined: it answered. */
  report(account: CloudAccount, fault: AccountFault | undefined): Promise<void>
}

export interface CloudAccount {
  readonly id: string
  readonly name: string
  /** Changes with its credentials or address. */
  readonly version: number
  readonly baseUrl: string
  readonly credentials: Credentials
  /** The vendor's regions by ours, before those of the vendor. */
  readonly regions: Readonly<Record<string, string>>
  /** Placement prefers a higher one before the price. */
  readonly preference: number
  /** Its machines may be sold for less than they cost. */
  readonly sellsBelowCost: boolean
  /** Why nothing new is created there. null: orders are welcome. */
  readonly closed: 'suspended' | 'spending_cap' | null
}

export interface AccountFault {
  /** `broken`: it needs the operator, for example another key. `stale`: it may come back by itself. */
  readonly kind: 'broken' | 'stale'
  readonly message: string
}

export interface KnownOrder {
  readonly tag: string
  /** null: the answer to its create is not known yet. */
  readonly externalId: string | null
  readonly machineId: string
  /** It was to be created and is not wanted any more. */
  readonly isEnding: boolean
  readonly seenAt?: Instant
}
