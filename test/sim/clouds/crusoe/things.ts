/** What the simulated Crusoe sells, and its disks. */
import { toDate, type Instant } from '../../../../src/base/instant.ts'

export interface CrusoeType {
  readonly name: string
  readonly gpu: string
  readonly gpus: number
  readonly cores: number
  readonly ramGb: number
  readonly diskGb: number
  readonly usdPerHour: string
  /** By location: how many machines there can be. */
  readonly capacity: Map<string, number>
}

export const LOGIN_USER = 'ubuntu'
/** What a machine costs less that uses up a reservation, in percent. */
export const RESERVATION_DISCOUNT = 40n

/** `h100-80gb-sxm-ib.8x` counts for the quota of `h100-80gb-sxm-ib`. */
export function familyOf(type: string): string {
  return type.split('.')[0] ?? ''
}

/** The drivers of the two images know the GPUs of one slot only. */
export function hasDriver(type: CrusoeType, image: string): boolean {
  return image.includes('-sxm-') === type.name.includes('-sxm')
}

export interface CrusoeDisk {
  readonly id: string
  readonly name: string
  readonly location: string
  readonly createdAt: Instant
  vmId: string | undefined
}

export function showType({ name, gpu, gpus, cores, ramGb, diskGb }: CrusoeType) {
  return {
    product_name: name,
    description: `${gpus}x ${gpu}`,
    cpu_cores: cores,
    cpu_type: 'intel',
    memory_gb: ramGb,
    memory_type: 'DDR5',
    disk_gb: diskGb,
    disk_type: 'NVMe',
    num_gpu: gpus,
    gpu_type: gpu,
  }
}

export function showDisk({ id, name, location, createdAt, vmId }: CrusoeDisk) {
  const created = toDate(createdAt).toISOString()
  return {
    id,
    name,
    type: 'persistent-ssd',
    size: '128GiB',
    location,
    block_size: 4096,
    created_at: created,
    updated_at: created,
    serial_number: id.slice(-12),
    attached_to: vmId === undefined ? [] : [{ vm_id: vmId, attachment_type: 'os', mode: 'read-write' }],
  }
}

export function defaultTypes(): CrusoeType[] {
  const places = () =>
    new Map([
      ['us-northcentral1-a', 8],
      ['us-east1-a', 8],
    ])
  return [
    {
      name: 'h100-80gb-sxm-ib.8x',
      gpu: 'H100 80GB',
      gpus: 8,
      cores: 176,
      ramGb: 960,
      diskGb: 6_720,
      usdPerHour: '31.2',
      capacity: places(),
    },
    {
      name: 'l40s-48gb.1x',
      gpu: 'L40S 48GB',
      gpus: 1,
      cores: 8,
      ramGb: 147,
      diskGb: 0,
      usdPerHour: '1',
      capacity: places(),
    },
    { name: 'c1a.4x', gpu: '', gpus: 0, cores: 4, ramGb: 16, diskGb: 0, usdPerHour: '0.2', capacity: places() },
  ]
}
