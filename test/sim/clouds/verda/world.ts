/** What exists at the simulated Verda: types, instances with their states, disks with the trash, and their bills. */
import { addMs, toDate, type Clock, type Instant } from '../../../../src/base/instant.ts'
import { nanoUsdOf, usd, usdToNumber, type NanoUsd } from '../../../../src/base/money.ts'
import { SimBill } from '../bill.ts'

export interface VerdaType {
  readonly name: string
  readonly gpu: string
  readonly gpus: number
  readonly gpuGb: number
  readonly cores: number
  readonly ramGb: number
  usdPerHour: string
  /** By location: how many instances there can be. */
  readonly capacity: Map<string, number>
}

export interface VerdaInstance {
  readonly id: string
  readonly tag: string
  readonly type: VerdaType
  readonly location: string
  readonly image: string
  readonly keys: readonly string[]
  readonly script: string | null
  readonly diskId: string
  readonly createdAt: Instant
  readonly readyAt: Instant
  usdPerHour: string
  readonly bootFails: boolean
  /** The vendor took the order and finds no room for it. It costs nothing then. */
  readonly lacksRoom: boolean
  readonly contract: 'PAY_AS_YOU_GO' | 'LONG_TERM' | 'SPOT'
  readonly pricing: 'FIXED_PRICE' | 'DYNAMIC_PRICE'
  /** Turned off in the vendor's console, and billed as before. */
  isOff: boolean
  /** The vendor ends it by itself then. */
  readonly discontinuedAt: Instant | undefined
  goneAt: Instant | undefined
  readonly bill: SimBill
}

/** `installing`: a word that the vendor's clients do not know yet. */
export type VerdaState =
  | 'ordered'
  | 'provisioning'
  | 'running'
  | 'offline'
  | 'error'
  | 'no_capacity'
  | 'installing'
  | 'deleting'
  | 'discontinued'

export interface VerdaDisk {
  readonly id: string
  readonly name: string
  readonly sizeGb: number
  readonly location: string
  readonly createdAt: Instant
  instanceId: string | null
  trashedAt: Instant | undefined
  isGone: boolean
  readonly bill: SimBill
}

const ORDERED_MS = 2_000
const TRASH_MS = 96 * 3_600_000
export const DISK_PER_GB_MONTH = usd('0.2')
const HOURS_PER_MONTH = 730n

export class VerdaWorld {
  readonly types = new Map<string, VerdaType>()
  readonly instances = new Map<string, VerdaInstance>()
  readonly disks = new Map<string, VerdaDisk>()
  /** All running instances are in this state, which drivers do not know. */
  strangeState: VerdaState | undefined
  readonly #clock: Clock
  #ids = 0

  constructor(clock: Clock) {
    this.#clock = clock
    for (const type of defaultTypes()) this.types.set(type.name, type)
  }

  now(): Instant {
    return this.#clock.now()
  }

  newId(): string {
    this.#ids += 1
    return `00000000-0000-4000-8000-${this.#ids.toString(16).padStart(12, '0')}`
  }

  add(instance: Omit<VerdaInstance, 'bill' | 'diskId' | 'id'>, diskGb: number): VerdaInstance {
    const { tag, location, createdAt } = instance
    const id = this.newId()
    const disk: VerdaDisk = {
      id: this.newId(),
      name: tag,
      sizeGb: diskGb,
      location,
      createdAt,
      instanceId: id,
      trashedAt: undefined,
      isGone: false,
      bill: new SimBill(),
    }
    const made = { ...instance, id, diskId: disk.id, bill: new SimBill() }
    // A long contract is paid for a month in advance, and a dynamic price is what others bid.
    if (instance.contract === 'LONG_TERM') made.bill.prepay(createdAt, usd(instance.usdPerHour) * HOURS_PER_MONTH)
    else if (!instance.lacksRoom) made.bill.start(createdAt, usd(instance.usdPerHour))
    disk.bill.start(createdAt, hourlyCostOf(disk))
    this.disks.set(disk.id, disk)
    this.instances.set(id, made)
    return made
  }

  /** Also ends what ended by itself. */
  stateOf(one: VerdaInstance): VerdaState {
    const now = this.now()
    if (one.goneAt === undefined && one.discontinuedAt !== undefined && one.discontinuedAt <= now) {
      this.end(one, one.discontinuedAt, 0)
      this.trash(one.diskId, one.discontinuedAt)
    }
    if (one.goneAt !== undefined) return one.goneAt <= now ? 'discontinued' : 'deleting'
    if (addMs(one.createdAt, ORDERED_MS) > now) return 'ordered'
    if (one.readyAt > now) return 'provisioning'
    if (one.lacksRoom) return 'no_capacity'
    if (one.bootFails) return 'error'
    return this.strangeState ?? (one.isOff ? 'offline' : 'running')
  }

  end(one: VerdaInstance, at: Instant, takesMs: number): void {
    one.goneAt = addMs(at, takesMs)
    one.bill.stop(at)
    const disk = this.disks.get(one.diskId)
    if (disk !== undefined) disk.instanceId = null
  }

  trash(diskId: string, at: Instant): void {
    const disk = this.disks.get(diskId)
    if (disk !== undefined) disk.trashedAt ??= at
  }

  purge(diskId: string, at: Instant): void {
    const disk = this.disks.get(diskId)
    if (disk === undefined) return
    disk.isGone = true
    disk.bill.stop(at)
  }

  /** Everything that ended by itself by now has ended. */
  settle(): void {
    for (const one of this.instances.values()) this.stateOf(one)
    for (const disk of this.disks.values()) {
      const until = disk.trashedAt === undefined ? undefined : addMs(disk.trashedAt, TRASH_MS)
      if (!disk.isGone && until !== undefined && until <= this.now()) this.purge(disk.id, until)
    }
  }

  living(): VerdaInstance[] {
    this.settle()
    return [...this.instances.values()].filter((one) => this.stateOf(one) !== 'discontinued')
  }

  free(type: VerdaType, location: string): number {
    const used = this.living().filter((one) => one.type === type && one.location === location)
    return (type.capacity.get(location) ?? 0) - used.length
  }

  showInstance(one: VerdaInstance) {
    const status = this.stateOf(one)
    const number = Number.parseInt(one.id.slice(-12), 16)
    const isUp = status === 'running' || status === 'offline' || status === 'installing'
    return {
      id: one.id,
      ip: isUp ? `203.0.${Math.floor(number / 250) % 250}.${1 + (number % 250)}` : null,
      status,
      created_at: toDate(one.createdAt).toISOString(),
      ...showHardware(one.type),
      hostname: one.tag,
      description: one.tag,
      location: one.location,
      price_per_hour: usdToNumber(usd(one.usdPerHour)),
      is_spot: false,
      instance_type: one.type.name,
      image: one.image,
      os_name: 'Ubuntu 24.04',
      startup_script_id: one.script,
      ssh_key_ids: one.keys,
      os_volume_id: status === 'ordered' ? null : one.diskId,
      contract: one.contract,
      pricing: one.pricing,
      volume_ids: [one.diskId],
    }
  }

  showDisk(disk: VerdaDisk) {
    return {
      id: disk.id,
      name: disk.name,
      size: disk.sizeGb,
      type: 'NVMe',
      status: disk.trashedAt !== undefined ? 'deleted' : disk.instanceId === null ? 'detached' : 'attached',
      created_at: toDate(disk.createdAt).toISOString(),
      instance_id: disk.instanceId,
      location: disk.location,
      is_os_volume: true,
      base_hourly_cost: usdToNumber(hourlyCostOf(disk)),
      monthly_price: usdToNumber(nanoUsdOf(DISK_PER_GB_MONTH * BigInt(disk.sizeGb))),
      currency: 'usd',
      ...(disk.trashedAt === undefined
        ? {}
        : { deleted_at: toDate(disk.trashedAt).toISOString(), is_permanently_deleted: false }),
    }
  }
}

export function showHardware({ gpu, gpus, gpuGb, cores, ramGb }: VerdaType) {
  return {
    cpu: { description: `${cores} CPU`, number_of_cores: cores },
    gpu: { description: `${gpus}x ${gpu}`, number_of_gpus: gpus },
    gpu_memory: { description: `${gpus * gpuGb}GB GPU RAM`, size_in_gigabytes: gpus * gpuGb },
    memory: { description: `${ramGb}GB RAM`, size_in_gigabytes: ramGb },
    storage: { description: 'dynamic' },
  }
}

function hourlyCostOf({ sizeGb }: VerdaDisk): NanoUsd {
  return nanoUsdOf((DISK_PER_GB_MONTH * BigInt(sizeGb)) / HOURS_PER_MONTH)
}

function defaultTypes(): VerdaType[] {
  const places = () =>
    new Map([
      ['FIN-01', 8],
      ['FIN-03', 8],
    ])
  const h100 = { gpu: 'H100 SXM5 80GB', gpuGb: 80 }
  return [
    { name: '1H100.80S.30V', ...h100, gpus: 1, cores: 30, ramGb: 120, usdPerHour: '2.29', capacity: places() },
    { name: '8H100.80S.176V', ...h100, gpus: 8, cores: 176, ramGb: 1480, usdPerHour: '18.32', capacity: places() },
    {
      name: '1V100.6V',
      gpu: 'Tesla V100 16GB',
      gpuGb: 16,
      gpus: 1,
      cores: 6,
      ramGb: 23,
      usdPerHour: '0.1381',
      capacity: places(),
    },
    { name: 'CPU.4V.16G', gpu: '', gpuGb: 0, gpus: 0, cores: 4, ramGb: 16, usdPerHour: '0.0279', capacity: places() },
  ]
}
