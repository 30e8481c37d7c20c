/** What the simulated Denvr sells: configurations by cluster and pool, images, disks. */
import { nanoUsdOf, usd, usdToNumber, type NanoUsd } from '../../../../src/base/money.ts'

export interface DenvrConfiguration {
  readonly id: number
  readonly name: string
  readonly gpu: string
  readonly gpus: number
  readonly vcpus: number
  readonly ramGb: number
  readonly storageGb: number
  /** By pool: per hour. */
  readonly prices: Map<string, string>
  /** By cluster and pool: how many servers there can be. */
  readonly capacity: Map<string, number>
}

export const CLUSTERS = ['Hou1', 'Msc1']
export const CONTRACTED = 'reserved-sim'
export const LOGIN_USER = 'ubuntu'
/** By name: whether the image has a driver for the GPUs. */
export const images: ReadonlyMap<string, boolean> = new Map([
  ['Ubuntu 20.04.6 LTS', true],
  ['Ubuntu 22.04.4 LTS', true],
  ['Rocky 9', false],
])
export const DISK_USD_PER_GB_MONTH = '0.1'

/** Of a disk, per hour. */
export function diskPrice(gb: number): NanoUsd {
  return nanoUsdOf((usd(DISK_USD_PER_GB_MONTH) * BigInt(gb)) / 730n)
}

export function showConfiguration({ id, name, gpu, gpus, vcpus, ramGb, storageGb, prices }: DenvrConfiguration) {
  return {
    id,
    name,
    user_friendly_name: name,
    gpu_type: `nvidia.com/${gpu.replaceAll(' ', '')}`,
    gpu_name: null,
    text_name: gpu,
    gpus,
    vcpus,
    memory: ramGb,
    storage: storageGb,
    price: usdToNumber(usd(prices.get('on-demand') ?? '0')),
    compute_network: null,
    is_gpu_platform: true,
    clusters: CLUSTERS,
  }
}

export function defaultConfigurations(): DenvrConfiguration[] {
  const places = () =>
    new Map([
      ['Hou1/on-demand', 8],
      ['Msc1/on-demand', 8],
      [`Msc1/${CONTRACTED}`, 4],
    ])
  const prices = (onDemand: string, contracted: string) =>
    new Map([
      ['on-demand', onDemand],
      [CONTRACTED, contracted],
    ])
  const h100 = { gpu: 'H100 80GB SXM', ramGb: 940, storageGb: 13_600 }
  return [
    {
      id: 15,
      name: 'H100_80GB_SXM_8x',
      ...h100,
      gpus: 8,
      vcpus: 200,
      prices: prices('23.2', '18.4'),
      capacity: places(),
    },
    {
      id: 5,
      name: 'A100_40GB_PCIe_1x',
      gpu: 'A100 40GB PCIe',
      gpus: 1,
      vcpus: 14,
      ramGb: 112,
      storageGb: 1_700,
      prices: prices('2.05', '1.5'),
      capacity: places(),
    },
  ]
}
