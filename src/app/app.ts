/** What every use case is handed: where things are, and who is asking. */
import type { Clock } from '../base/instant.ts'
import type { NanoUsd } from '../base/money.ts'
import type { Vault } from '../base/vault.ts'
import type { Role } from '../contract/account.ts'
import type { Scope } from '../contract/endpoint.ts'
import type { DeploymentHealth, LocalModelState } from '../contract/model.ts'
import type { ProviderId } from '../contract/provider-data.ts'
import type { Driver } from '../engines/driver.ts'
import type { Database } from '../store/database.ts'
import type { RentalOptions } from './rental-option.ts'

export interface App {
  readonly database: Database
  readonly clock: Clock
  /** Part of every tag at an engine. */
  readonly installationId: string
  readonly drivers: ReadonlyMap<ProviderId, Driver>
  readonly vault: Vault
  /** Lets webhooks go to private addresses: for tests and for operators whose customers are inside. */
  readonly allowPrivateAddresses: boolean
  /** Puts into the log what went wrong without making a request fail. */
  readonly warn?: (error: unknown, what: string) => void
  /** Hears of every call of a loop to an engine that failed. */
  readonly driverFault?: (fault: DriverFault) => void
  /** Read by all callers together. Absent: read for each. */
  readonly rentalOptions?: RentalOptions
  /** Absent: this server runs no models and reaches none. */
  readonly modelSight?: ModelSight
  /** What a request has cost that this server answered lately: the books may not have it yet. */
  readonly recentCost?: (requestId: string) => { readonly accountId: string; readonly cost: NanoUsd } | undefined
}

export interface DriverFault {
  readonly loop: string
  readonly driver: string
  /** What the call was about: `rental 17`. */
  readonly subject: string
  readonly error: unknown
  /** Another cause than that of the last call about it: only then is it worth a line in the log. */
  readonly isNew: boolean
}

/** What only the server that answers can tell of models: none of it is in the books. */
export interface ModelSight {
  /** undefined: not a model that this server runs itself. */
  localState(model: string): LocalModelState | undefined
  /** undefined: this server does not use it. */
  deploymentHealth(id: string): DeploymentHealth | undefined
}

/** Who acts: a key, for a person, in an account. */
export interface Actor {
  readonly accountId: string
  readonly personId: string
  readonly keyId: string
  readonly role: Role
  readonly scopes: readonly Scope[]
}
