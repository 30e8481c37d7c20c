/**
 * The port to a cloud: what one vendor's API can do with one account of ours. `driver.ts` builds one driver on it for
 * all accounts, so a vendor's folder has only its names, calls and states (clouds/README.md).
 *
 * The rules of the driver port apply here too: an error of `create` or `destroy` means that the outcome is unknown, an
 * error of a list is never an empty list, and everything carries the tag of its order.
 */
import type { Clock } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { ProviderData, ProviderId } from '../../contract/provider-data.ts'
import type { ProviderCheck } from '../../contract/provider.ts'
import type { RentalSpec, RentalKind } from '../../domain/rental.ts'
import type { BillingTerms, DriverTraits, DriverMachine, DriverVolume, PowerDriver, VolumeDriver } from '../driver.ts'
import type { CloudHttp, HttpOptions } from './http.ts'
import type { Pace } from './pacer.ts'

/** One vendor. Its name is ours (`ProviderId`). */
export interface CloudVendor {
  readonly id: ProviderId
  /** The name for people. */
  readonly title: string
  readonly baseUrl: string
  /** The fields of its credentials. All of them are texts. */
  readonly credentials: readonly CredentialField[]
  /**
   * Maps the vendor's regions to ours. An account can add regions or map them differently. An offer in an unmapped
   * region is not sold. `*` stands for all others, for a vendor whose regions are ids without a place.
   */
  readonly regions: Readonly<Record<string, string>>
  /** The rate limits: the shortest time between two requests, in general and by route. */
  readonly pace: Pace
  /** The list of machines and volumes may lag this long. */
  readonly billing: BillingTerms
  /** The list of machines and volumes may lag this long. */ readonly listLagMs: number
  /** This is long enough to wait for the rate limits. */
  readonly callTimeoutMs: number
  /** How long a machine may take to start, where that is longer than usual, as for bare metal. */
  readonly startLimitMs?: number
  /** The SSH user. */
  readonly loginUser: string
  /** The SSH user on bare metal, if it differs. */
  readonly metalLoginUser?: string
  readonly power?: DriverTraits['power']
  /** Absent: the vendor has no volumes. Otherwise each of its clouds has `volumes`. */
  readonly volumes?: CloudVolumeTraits
  /** Opens one account. */
  open(account: OpenAccount): Cloud
  /** Tells what an error of `create` means. undefined: the outcome is unknown. */
  refusalOf(error: unknown): CloudRefusal | undefined
}

export interface CredentialField {
  readonly name: string
  readonly help: string
  /** The field can be left out. */
  readonly optional?: true
}

/** Volumes that are attached over a network, in the regions of the vendor's machines. */
export interface CloudVolumeTraits extends Pick<VolumeDriver, 'serves' | 'attaches'> {
  /** Volumes can grow, so its clouds have `volumes.grow`. */
  readonly grows: boolean
}

export type Credentials = Readonly<Record<string, string>>

/** A vendor needs this to call its API on behalf of one account. */
export interface OpenAccount {
  readonly credentials: Credentials
  readonly clock: Clock
  /** Makes a client with the account's address, pacing, circuit breaker and secrets. */
  readonly http: (options: Pick<HttpOptions, 'authorize'>) => CloudHttp
}

/** One account of a vendor. */
export interface Cloud {
  /** Makes a read-only call, then checks rights, then limits. Stops at the first failure. */
  check(signal: AbortSignal): Promise<ProviderCheck[]>
  /**
   * Lists all offers, including those that cannot be sold here (`offer.ts` decides). The driver merges the offers of
   * one place.
   */
  offers(signal: AbortSignal): Promise<CloudOffer[]>
  /**
   * Creates what the machine needs under the tag, or reuses what an earlier attempt created, and creates the machine.
   * The driver has checked the offer and its price before, and removes companions after a refusal.
   */
  create(order: CloudOrder, signal: AbortSignal): Promise<CloudOutcome>
  /** Starts the teardown. Succeeds for a machine that is already gone. Throws if the vendor refuses. */
  destroy(id: string, signal: AbortSignal): Promise<void>
  /** Lists all machines whose tag starts with the prefix, including ended ones that still cost money. */
  list(tagPrefix: string, signal: AbortSignal): Promise<CloudMachine[]>
  /** Lists everything else that was created for orders with such tags: keys, scripts, addresses, disks. */
  companions(tagPrefix: string, signal: AbortSignal): Promise<CloudCompanion[]>
  /** Idempotent. */
  removeCompanion(companion: CloudCompanion, signal: AbortSignal): Promise<void>
  readonly power?: PowerDriver
  /** The ids are the vendor's. */
  readonly volumes?: CloudVolumes
}

/** The volumes of one account. The rules of `VolumeDriver` hold, with the vendor's ids. */
export interface CloudVolumes extends Pick<VolumeDriver, 'create' | 'grow' | 'destroy' | 'attach' | 'detach'> {
  list(tagPrefix: string, signal: AbortSignal): Promise<CloudVolume[]>
}

export interface CloudVolume extends Omit<DriverVolume, 'cost'> {
  /** The current price. */
  readonly costPerHour: NanoUsd
}

/** A machine that the vendor sells in one of its regions. */
export interface CloudOffer {
  /** The vendor's name of the type, unique within the region. */
  readonly type: string
  /** The vendor's region. */
  readonly region: string
  readonly kind: 'virtual-machine' | 'bare-metal'
  /** The vendor's description of the GPU: `H100 (80 GB SXM5)`. */
  readonly gpu: string
  readonly gpus: number
  readonly networkType: 'infiniband' | 'ethernet'
  /** null: the vendor reports no number. */
  readonly available: number | null
  /** The price of the whole machine and everything it needs, such as an address or a boot disk. */
  readonly costPerHour: NanoUsd
  /** The vendor also sells several machines as one cluster. */
  readonly isClustered?: true
  readonly cpuModel?: string
  readonly cpus: number
  readonly ramGb: number
  readonly storageGb: number
}

export interface CloudOrder<Offer extends CloudOffer = CloudOffer> {
  readonly tag: string
  readonly offer: Offer
  readonly units: number
  readonly spec: RentalSpec
  /** A cloud-init file with all SSH keys and the options of the order. It contains secrets. */
  readonly userData: string
  /**
   * The same as a shell script, for clouds that have no cloud-init. undefined: the customer's user data needs
   * cloud-init.
   */
  readonly startupScript: string | undefined
}

export interface CloudRefusal {
  readonly kind: 'refused'
  readonly reason: 'no_capacity' | 'rejected_by_provider'
  /** Customers see this sentence, so it never quotes the vendor. */
  readonly message: string
  /** The vendor's own words, for the operator. The driver adds those of an error. */
  readonly detail?: string
}

export type CloudOutcome = { readonly kind: 'created'; readonly id: string } | CloudRefusal

export function refused(reason: CloudRefusal['reason'], message: string, detail?: string): CloudRefusal {
  return { kind: 'refused', reason, message, ...(detail === undefined ? {} : { detail }) }
}

export interface CloudMachine extends Pick<DriverMachine, 'tag' | 'state' | 'failure' | 'message' | 'incarnation'> {
  /** The vendor's id. */
  readonly id: string
  /**
   * The current price of the machine and everything that belongs to it. Zero while it is not billed. Absent: unknown.
   */
  readonly costPerHour?: NanoUsd
  /** The vendor's variant, once the machine runs, without `externalId`. */
  readonly data?: ProviderData
}

/** Shows a machine whose answer cannot be read except for its id and tag: it exists, and nothing else is known. */
export function unreadable(title: string, { id, tag }: { readonly id: string; readonly tag: string }): CloudMachine {
  return { id, tag, state: 'unreachable', message: `The answer of ${title} about the machine cannot be read.` }
}

export interface CloudCompanion {
  readonly id: string
  readonly tag: string
  /** `ssh-key`, `address`, … for the operator. */
  readonly what: string
}

export const noPower: DriverTraits['power'] = { stop: [] as RentalKind[], reboot: [] as RentalKind[] }
