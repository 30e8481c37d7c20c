/**
 * The port to a cloud: what one vendor's API can do with one account of ours. `driver.ts` makes a driver of it that
 * serves all accounts, so a vendor's folder has only its names, calls and states (clouds/README.md).
 *
 * The rules of the driver port hold here too: an error of `create` or `destroy` means that the outcome is unknown, an
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
  /** People read it. */
  readonly title: string
  readonly baseUrl: string
  /** The fields of its credentials, all of them texts. */
  readonly credentials: readonly CredentialField[]
  /**
   * Its regions by ours. An account can map others, or these otherwise. A region without one is not sold. `*`: all
   * others, for a vendor whose regions are ids without a place.
   */
  readonly regions: Readonly<Record<string, string>>
  /** Its rate limits: the shortest time between two requests, also by route. */
  readonly pace: Pace
  /** The list of machines and volumes may lag this long. */
  readonly billing: BillingTerms
  readonly listLagMs: number
  /** Long enough to wait for its rate limits. */
  readonly callTimeoutMs: number
  /** How long a machine may take until it runs, where that is longer than usual, as for bare metal. */
  readonly startLimitMs?: number
  /** User for SSH. */
  readonly loginUser: string
  /** User for SSH on bare metal, where it is another one. */
  readonly metalLoginUser?: string
  readonly power?: DriverTraits['power']
  /** Absent: it has no volumes. Its clouds have `volumes` then. */
  readonly volumes?: CloudVolumeTraits
  /** `authorize`: adds its headers to each request. */
  open(account: OpenAccount): Cloud
  /** The meaning of an error of `create`. undefined: the outcome is unknown. */
  refusalOf(error: unknown): CloudRefusal | undefined
}

export interface CredentialField {
  readonly name: string
  readonly help: string
  /** It can be left out. */
  readonly optional?: true
}

/** Volumes that are attached over a network, in the regions of its machines. */
export interface CloudVolumeTraits extends Pick<VolumeDriver, 'serves' | 'attaches'> {
  /** Its clouds have `volumes.grow`. */
  readonly grows: boolean
}

export type Credentials = Readonly<Record<string, string>>

/** A vendor needs this to talk to its API in the name of one account. */
export interface OpenAccount {
  readonly credentials: Credentials
  readonly clock: Clock
  /** Makes a client with the account's address, pacing, circuit breaker and secrets. */
  readonly http: (options: Pick<HttpOptions, 'authorize'>) => CloudHttp
}

/** One account of a vendor. */
export interface Cloud {
  /** A read-only call, then rights, then limits. The first that fails ends it. */
  check(signal: AbortSignal): Promise<ProviderCheck[]>
  /** Everything it offers, also what cannot be sold here (`offer.ts` decides). The driver merges those of one place. */
  offers(signal: AbortSignal): Promise<CloudOffer[]>
  /**
   * Makes what the machine needs under the tag, finds again what an earlier attempt made, and creates the machine. The
   * driver has found the offer and its price before, and removes companions after a refusal.
   */
  create(order: CloudOrder, signal: AbortSignal): Promise<CloudOutcome>
  /** Starts the teardown. Succeeds for a machine that is already gone. Throws if the vendor refuses. */
  destroy(id: string, signal: AbortSignal): Promise<void>
  /** All machines whose tag starts with the prefix, also those that still cost money after their end. */
  list(tagPrefix: string, signal: AbortSignal): Promise<CloudMachine[]>
  /** Everything that it made beside machines for orders with such tags: keys, scripts, addresses, disks. */
  companions(tagPrefix: string, signal: AbortSignal): Promise<CloudCompanion[]>
  /** Idempotent. */
  removeCompanion(companion: CloudCompanion, signal: AbortSignal): Promise<void>
  readonly power?: PowerDriver
  /** Its ids are the vendor's. */
  readonly volumes?: CloudVolumes
}

/** The volumes of one account. The rules of `VolumeDriver` hold, with the vendor's ids. */
export interface CloudVolumes extends Pick<VolumeDriver, 'create' | 'grow' | 'destroy' | 'attach' | 'detach'> {
  list(tagPrefix: string, signal: AbortSignal): Promise<CloudVolume[]>
}

export interface CloudVolume extends Omit<DriverVolume, 'cost'> {
  /** The price now. */
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
  /** null: the vendor gives no number. */
  readonly available: number | null
  /** The price of the whole machine with all that it needs, such as an address or a boot disk. */
  readonly costPerHour: NanoUsd
  /** It is also sold as a cluster of several machines in one order. */
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
  /** A file for cloud-init with all SSH keys and the options of the order. It contains secrets. */
  readonly userData: string
  /** The same for clouds that run a shell script instead. undefined: the customer's user data needs cloud-init. */
  readonly startupScript: string | undefined
}

export interface CloudRefusal {
  readonly kind: 'refused'
  readonly reason: 'no_capacity' | 'rejected_by_provider'
  /** Customers see it: a sentence of ours. */
  readonly message: string
  /** The vendor's own words, for the operator. Of an error, the driver adds them. */
  readonly detail?: string
}

export type CloudOutcome = { readonly kind: 'created'; readonly id: string } | CloudRefusal

export function refused(reason: CloudRefusal['reason'], message: string, detail?: string): CloudRefusal {
  return { kind: 'refused', reason, message, ...(detail === undefined ? {} : { detail }) }
}

export interface CloudMachine extends Pick<DriverMachine, 'tag' | 'state' | 'failure' | 'message' | 'incarnation'> {
  /** The vendor's id. */
  readonly id: string
  /** The price now, with all that belongs to it. Zero while it is not billed. Absent: not known. */
  readonly costPerHour?: NanoUsd
  /** Once it runs: its variant, without `externalId`. */
  readonly data?: ProviderData
}

/** A machine of which only the id and the tag can be read: it exists, and nothing else is known. */
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
