/** What the simulated Verda sells, and its disks with the trash. */
import { addMs, toDate, type Instant } from '../../../../src/base/instant.ts'
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

interface VerdaDisk {
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

const TRASH_MS = 96 * 3_600_000
export const DISK_PER_GB_MONTH = usd('0.2')
export const HOURS_PER_MONTH = 730n

export class VerdaDisks {
  readonly #disks = new Map<string, VerdaDisk>()
  readonly #now: () => Instant

  constructor(now: () => Instant) {
    this.#now = now
  }

  add(disk: Pick<VerdaDisk, 'id' | 'name' | 'sizeGb' | 'location' | 'instanceId'>): void {
    const bill = new SimBill()
    bill.start(this.#now(), hourlyCostOf(disk))
    this.#disks.set(disk.id, { ...disk, createdAt: this.#now(), trashedAt: undefined, isGone: false, bill })
  }

  /** Those that exist, without what has left the trash by now. */
  all(): VerdaDisk[] {
    for (const { id, trashedAt } of this.#disks.values()) {
      const until = trashedAt === undefined ? undefined : addMs(trashedAt, TRASH_MS)
      if (until !== undefined && until <= this.#now()) this.purge(id, until)
    }
    return [...this.#disks.values()].filter(({ isGone }) => !isGone)
  }

  nanoUsd(id: string): bigint {
    this.all()
    return this.#disks.get(id)?.bill.nanoUsd(this.#now()) ?? 0n
  }

  detach(id: string): void {
    const disk = this.#disks.get(id)
    if (disk !== undefined) disk.instanceId = null
  }

  trash(id: string, at: Instant): void {
    const disk = this.#disks.get(id)
    if (disk !== undefined) disk.trashedAt ??= at
  }

  purge(id: string, at: Instant): void {
    const disk = this.#disks.get(id)
    if (disk === undefined || disk.isGone) return
    disk.isGone = true
    disk.bill.stop(at)
  }
}

export function showDisk(disk: VerdaDisk) {
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

export function showHardware({ gpu, gpus, gpuGb, cores, ramGb }: VerdaType) {
  return {
    cpu: { description: `${cores} CPU`, number_of_cores: cores },
    gpu: { description: `${gpus}x ${gpu}`, number_of_gpus: gpus },
    gpu_memory: { description: `${gpus * gpuGb}GB GPU RAM`, size_in_gigabytes: gpus * gpuGb },
    memory: { description: `${ramGb}GB RAM`, size_in_gigabytes: ramGb },
    storage: { description: 'dynamic' },
  }
}

function hourlyCostOf({ sizeGb }: Pick<VerdaDisk, 'sizeGb'>): NanoUsd {
  return nanoUsdOf((DISK_PER_GB_MONTH * BigInt(sizeGb)) / HOURS_PER_MONTH)
}

export function defaultTypes(): VerdaType[] {
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
