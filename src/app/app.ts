/** The dependencies of use cases, and the caller. */
import type { Duplex } from 'node:stream'
import type { Clock } from '../base/instant.ts'
import type { NanoUsd } from '../base/money.ts'
import type { Bucket } from '../base/net/object-store.ts'
import type { Vault } from '../base/vault.ts'
import type { Role } from '../contract/account.ts'
import type { Api, OperationId } from '../contract/api.ts'
import type { CatalogFile } from '../contract/catalog.ts'
import type { ResponseOf, Scope } from '../contract/endpoint.ts'
import type { DeploymentHealth, LocalModelState } from '../contract/model.ts'
import type { ProviderCheck, ProviderOffer } from '../contract/provider.ts'
import type { ProviderId } from '../contract/provider-data.ts'
import type { Result } from '../contract/result.ts'
import type { Mailer } from '../domain/mail.ts'
import type { PayoutSettings } from '../domain/payout.ts'
import type { Processor } from '../domain/processor.ts'
import type { InstanceOrder } from '../domain/order.ts'
import type { SignUpMode } from '../domain/sign-up.ts'
import type { Driver } from '../drivers/driver.ts'
import type { Database } from '../store/platform/database.ts'
import type { ConsoleSession } from '../store/account/console-session.ts'
import type { PlacedOrder } from '../store/rental/order.ts'
import type { MetricRecorder } from './rental/metric-recorder.ts'
import type { SignInProviders } from './person/sso-protocol.ts'
import type { RentalOptions } from './order/rental-option.ts'

export interface App {
  readonly database: Database
  readonly clock: Clock
  /** Part of every tag at a provider. */
  readonly installationId: string
  readonly drivers: ReadonlyMap<ProviderId, Driver>
  readonly vault: Vault
  /** The price of disk space of stopped rentals, per GB and month. */
  readonly stoppedDiskPerGbMonth: NanoUsd
  /** The price of a CPU of a rental that runs without its GPUs. */
  readonly cpuPerHour: NanoUsd
  /** Free GPU-minutes for starts of replicas, per account and day. Absent: the usual limit. */
  readonly freeStartMinutes?: number
  /** Allows webhooks to private addresses: for tests, and for operators whose customers are in their own network. */
  readonly allowPrivateAddresses: boolean
  /** The place of files. Absent: the database. */
  readonly bucket?: Bucket
  /** Absent: the server has no public URL, so people cannot sign in as themselves. */
  readonly people?: PeopleSettings
  /** Takes payments by card. Absent: only operators add money. */
  readonly processor?: Processor
  /** Absent: suppliers are paid by the usual rules. */
  readonly payouts?: PayoutSettings
  /** Absent: no mail server is configured. */
  readonly mailer?: Mailer
  /** Logs a problem that does not fail the request. */
  readonly warn?: (error: unknown, what: string) => void
  /** Called for every failed provider call of a loop. */
  readonly driverFault?: (fault: DriverFault) => void
  /** Called for every start of a replica that this server drives, when its result is known. */
  readonly replicaStart?: (model: string, result: ReplicaStart) => void
  /** The URL of an HTTP port of a rental. Absent, or undefined: this server has no domain for them. */
  readonly portUrl?: (rentalName: string, port: number) => string | undefined
  /** One cached read for all callers. Absent: read per request. */
  readonly rentalOptions?: RentalOptions
  /** Places marketplace orders that arrive together in one transaction. Absent: each has its own. */
  readonly orderBatches?: OrderQueue
  /** The clouds that accounts can be added for. Absent: none. */
  readonly providers?: Providers
  /** Samples that are not in the database yet. Absent: no host reports to this server. */
  readonly recorder?: MetricRecorder
  /** A stream to a port of a rented machine. undefined: its host is not connected. Absent: this server reaches none. */
  readonly dialWorkload?: (to: WorkloadPortAddress) => Duplex | undefined
  /** The catalog that the operator has set. Absent: the built-in one. */
  readonly catalog?: CatalogSource
  /** Absent: this server has no gateway. */
  readonly modelStatus?: ModelStatus
  /**
   * A limit of the account was set or lowered: resolves when no gateway can spend money that it was given before. Absent:
   * there is no gateway.
   */
  readonly recallMoney?: (accountId: string) => Promise<void>
  /** Costs of recent requests of this server, which may not be settled in the database yet. */
  readonly recentCosts?: (
    requestIds: readonly string[],
  ) => Promise<ReadonlyMap<string, { readonly accountId: string; readonly cost: NanoUsd }>>
}

export interface PeopleSettings {
  /** Every link, and every address that a provider or a passkey is bound to, begins with it. */
  readonly publicUrl: string
  readonly signUp: SignUpMode
  readonly providers: SignInProviders
  /** Reads the document of a client that signs in with OAuth, at a public address and with limits. */
  readonly readDocument: (url: string) => Promise<Response>
}

export interface CatalogSource {
  readonly file: CatalogFile
  /** A file or URL. */
  readonly source: string
  /** Why the newest copy is not in use. null: it is. */
  readonly problem: string | null
}

/** `cancelled`: ended before its first answer because it was not needed any more. `not_ordered`: no machine, money, … */
export type ReplicaStart = 'ready' | 'failed' | 'cancelled' | 'not_ordered'

export interface WorkloadPortAddress {
  readonly hostId: string
  readonly workloadId: string
  readonly port: number
}

export interface Providers {
  readonly kinds: readonly ProviderKind[]
  /** Opens the drivers of accounts that were added since, on this server. */
  refresh(): Promise<void>
  /** Calls a cloud with credentials of no account. Nothing is stored. */
  attempt(provider: ProviderKind['provider'], account: TriedAccount, signal: AbortSignal): Promise<ProviderAttempt>
}

export interface TriedAccount {
  readonly credentials: Readonly<Record<string, string>>
  readonly baseUrl: string
  readonly regions: Readonly<Record<string, string>>
}

export interface ProviderAttempt {
  readonly checks: readonly ProviderCheck[]
  /** Empty if a check failed. */
  readonly offers: readonly ProviderOffer[]
}

/** A cloud, and what an account there needs. */
export type ProviderKind = ResponseOf<Api['listProviders']>['kinds'][number]

export interface DriverFault {
  readonly loop: string
  readonly driver: string
  /** The subject of the call: `rental 17`. */
  readonly subject: string
  readonly error: unknown
  /** The cause differs from the last one: only then is it logged. */
  readonly isNew: boolean
}

/** State of models on this server, which is not in the database. */
export interface ModelStatus {
  /** undefined: this server does not run the model itself. */
  localState(model: string): LocalModelState | undefined
  /** undefined: this server does not use it. */
  deploymentHealth(id: string): DeploymentHealth | undefined
}

/** The caller: a key that acts for a person in an account. */
export interface Actor {
  readonly accountId: string
  readonly personId: string
  readonly keyId: string
  readonly role: Role
  readonly scopes: readonly Scope[]
  /** The console session that the request came with. Absent: it came with a key. */
  readonly session?: ConsoleSession
}

/** The person and key that pay for an order, and whose limits it obeys. */
export type Payer = Pick<Actor, 'accountId' | 'personId' | 'keyId'>

/** A create that is to happen once per idempotency key. */
export interface Once {
  /** The `Idempotency-Key` header. undefined: not sent. */
  readonly key: string | undefined
  readonly operation: OperationId
  /** Path and body, which must match for the same key. */
  readonly request: unknown
}

export interface OrderQueue {
  /**
   * undefined: neither placed nor refused, and nothing of it was written. `respond` makes the response to store for the
   * idempotency key.
   */
  place(
    actor: Actor,
    once: Once,
    order: InstanceOrder,
    respond: (placed: PlacedOrder) => unknown,
  ): Promise<Result<PlacedOrder> | undefined>
}
