/** What every use case is handed: where things are, and who is asking. */
import type { Clock } from '../base/instant.ts'
import type { Vault } from '../base/vault.ts'
import type { Role } from '../contract/account.ts'
import type { Scope } from '../contract/endpoint.ts'
import type { ProviderId } from '../contract/provider-data.ts'
import type { Driver } from '../engines/driver.ts'
import type { Database } from '../store/database.ts'

export interface App {
  readonly database: Database
  readonly clock: Clock
  /** Part of every tag at an engine. */
  readonly installationId: string
  readonly drivers: ReadonlyMap<ProviderId, Driver>
  readonly vault: Vault
  /** Lets webhooks go to private addresses: for tests and for operators whose customers are inside. */
  readonly allowPrivateAddresses: boolean
}

/** Who acts: a key, for a person, in an account. */
export interface Actor {
  readonly accountId: string
  readonly personId: string
  readonly keyId: string
  readonly role: Role
  readonly scopes: readonly Scope[]
}
