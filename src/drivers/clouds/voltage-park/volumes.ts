/**
 * Storage of Voltage Park: NFS shares with an address of their own, attached to bare-metal rentals. A share is named
 * after our tag, and names are unique, so a repeated create makes no second share.
 *
 * The rentals of a share are changed as one list, so changes of one share wait for each other.
 */
import type { GrowOutcome, VolumeOutcome, VolumeSpec } from '../../driver.ts'
import type { CloudVolumes } from '../cloud.ts'
import { CloudError, isRefused, type CloudHttp } from '../http.ts'
import { anything, storageVolume, type StorageVolume } from './api.ts'
import { machineIdOf, resourceOf } from './machines.ts'
import { readAll } from './pages.ts'

const STORAGE = '/api/v1/storage/'

export class VoltageParkVolumes implements CloudVolumes {
  readonly #http: CloudHttp
  readonly #changes = new Map<string, Promise<void>>()

  constructor(http: CloudHttp) {
    this.#http = http
  }

  async create(tag: string, { sizeGb }: VolumeSpec, signal: AbortSignal): Promise<VolumeOutcome> {
    const existing = await this.#find(tag, signal)
    if (existing !== undefined) return outcomeOf(existing)
    const body = { size_in_gb: sizeGb, name: tag, order_ids: [] }
    try {
      return outcomeOf(await this.#http.write(storageVolume, { method: 'POST', path: STORAGE, body, signal }))
    } catch (error) {
      if (!isRefused(error)) throw error
      // An earlier attempt may have taken the name and been listed late.
      const lateEntry = await this.#find(tag, signal)
      if (lateEntry !== undefined) return outcomeOf(lateEntry)
      const reason = error.status === 422 ? 'rejected_by_provider' : 'no_storage_capacity'
      return { kind: 'refused', reason, message: `Voltage Park refused the volume: ${error.message}` }
    }
  }

  async grow(id: string, sizeGb: number, signal: AbortSignal): Promise<GrowOutcome> {
    const volume = await this.#get(id, signal)
    if (volume === undefined) throw new Error('Voltage Park does not have this volume any more.')
    if (volume.size_in_gb >= sizeGb) return { kind: 'grown' }
    try {
      await this.#change(id, { size_in_gb: sizeGb }, signal)
      return { kind: 'grown' }
    } catch (error) {
      if (!isRefused(error)) throw error
      return { kind: 'refused', message: `Voltage Park refused to grow the volume: ${error.message}` }
    }
  }

  async destroy(id: string, signal: AbortSignal): Promise<void> {
    const volume = await this.#get(id, signal)
    if (volume === undefined) return
    if (volume.order_ids.length > 0) await this.#change(id, { order_ids: [] }, signal)
    await this.#http.write(anything, { method: 'DELETE', path: pathOf(id), signal }).catch((error: unknown) => {
      if (!(error instanceof CloudError) || error.status !== 404) throw error
    })
  }

  async list(tagPrefix: string, signal: AbortSignal) {
    const volumes = await readAll(this.#http, storageVolume, STORAGE, signal)
    return volumes
      .filter(({ name }) => name.startsWith(tagPrefix))
      .map((volume) => ({
        externalId: volume.id,
        tag: volume.name,
        vip: volume.vip ?? '',
        costPerHour: volume.rate_hourly,
        attachedTo: volume.order_ids.map((id) => machineIdOf({ kind: 'metal', id })),
        ...(isReady(volume) ? {} : { ready: false as const, message: `Voltage Park reports ${volume.status}.` }),
      }))
  }

  async attach(id: string, machineId: string, signal: AbortSignal): Promise<void> {
    const rental = rentalOf(machineId)
    await this.#changeRentals(id, signal, (rentals) => (rentals.includes(rental) ? rentals : [...rentals, rental]))
  }

  async detach(id: string, machineId: string, signal: AbortSignal): Promise<void> {
    const rental = rentalOf(machineId)
    await this.#changeRentals(id, signal, (rentals) => rentals.filter((one) => one !== rental))
  }

  async #changeRentals(
    id: string,
    signal: AbortSignal,
    change: (rentals: readonly string[]) => readonly string[],
  ): Promise<void> {
    const turn = this.#changeAfter(this.#changes.get(id), id, signal, change)
    const settled = turn.catch(() => undefined)
    this.#changes.set(id, settled)
    await turn.finally(() => {
      if (this.#changes.get(id) === settled) this.#changes.delete(id)
    })
  }

  async #changeAfter(
    before: Promise<void> | undefined,
    id: string,
    signal: AbortSignal,
    change: (rentals: readonly string[]) => readonly string[],
  ): Promise<void> {
    await before
    const volume = await this.#get(id, signal)
    if (volume === undefined) throw new Error('Voltage Park does not have this volume any more.')
    const rentals = change(volume.order_ids)
    if (rentals.join() !== volume.order_ids.join()) await this.#change(id, { order_ids: rentals }, signal)
  }

  async #change(id: string, body: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<void> {
    await this.#http.write(anything, { method: 'PATCH', path: pathOf(id), body, signal })
  }

  /** undefined: the volume does not exist. */
  async #get(id: string, signal: AbortSignal): Promise<StorageVolume | undefined> {
    return this.#http.read(storageVolume, { path: pathOf(id), signal }).catch((error: unknown) => {
      if (error instanceof CloudError && error.status === 404) return undefined
      throw error
    })
  }

  async #find(tag: string, signal: AbortSignal): Promise<StorageVolume | undefined> {
    return (await readAll(this.#http, storageVolume, STORAGE, signal)).find(({ name }) => name === tag)
  }
}

function pathOf(id: string): string {
  return `${STORAGE}${encodeURIComponent(id)}`
}

function isReady({ status, vip }: StorageVolume): boolean {
  return status === 'active' && vip !== undefined && vip !== null && vip !== ''
}

/** A volume counts as created once it can be mounted. Until then the reconcilers ask again. */
function outcomeOf(volume: StorageVolume): VolumeOutcome {
  if (!isReady(volume)) throw new Error(`Voltage Park is still making the volume: ${volume.status}.`)
  return { kind: 'created', externalId: volume.id, vip: volume.vip ?? '' }
}

function rentalOf(machineId: string): string {
  const resource = resourceOf(machineId)
  if (resource.kind !== 'metal') throw new Error('Voltage Park attaches volumes to bare metal only.')
  return resource.id
}
