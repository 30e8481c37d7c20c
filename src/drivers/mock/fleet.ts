/**
 * The simulated fleet. One row is a pool of equal machines. Names follow from the order of the rows: add new rows at the
 * end of a table, and keep each site in one table.
 */
import type { InventoryMachine } from '../driver.ts'
import type { MockOffer } from './offers.ts'

type Gpu = Pick<InventoryMachine, 'gpuType' | 'gpuModel' | 'gpuRamMib' | 'gpuFormFactor'> & {
  readonly clockMhz: number
  /** Dense FP16 on the tensor cores. */
  readonly tflops: number
  readonly bus: string
}

function gpu(
  gpuType: Gpu['gpuType'],
  gpuModel: string,
  gpuRamMib: number,
  gpuFormFactor: Gpu['gpuFormFactor'],
  clockMhz: number,
  tflops: number,
  bus: string,
): Gpu {
  return { gpuType, gpuModel, gpuRamMib, gpuFormFactor, clockMhz, tflops, bus }
}

// oxfmt-ignore
const gpus = {
  h100:     gpu('h100', 'NVIDIA-H100-SXM5-80GB',     81_559, 'sxm5', 1_980,   989, 'SXM5'),
  h100pcie: gpu('h100', 'NVIDIA-H100-PCIe-80GB',     81_559, 'pcie', 1_755,   756, 'PCIe 5.0 x16'),
  h200:     gpu('h200', 'NVIDIA-H200-SXM-141GB',    143_771, 'sxm5', 1_980,   989, 'SXM5'),
  b200:     gpu('b200', 'NVIDIA-B200-SXM-180GB',    183_359, 'sxm6', 1_965, 2_250, 'SXM6'),
  a100:     gpu(null,   'NVIDIA-A100-SXM4-80GB',     81_920, null,   1_410,   312, 'SXM4'),
  l40s:     gpu(null,   'NVIDIA-L40S',               46_068, 'pcie', 2_520,   362, 'PCIe 4.0 x16'),
  a6000:    gpu(null,   'NVIDIA-RTX-A6000',          49_140, 'pcie', 1_800,   155, 'PCIe 4.0 x16'),
  rtx4090:  gpu(null,   'NVIDIA-GeForce-RTX-4090',   24_564, 'pcie', 2_520,   165, 'PCIe 4.0 x16'),
  rtx3090:  gpu(null,   'NVIDIA-GeForce-RTX-3090',   24_576, 'pcie', 1_695,    71, 'PCIe 4.0 x16'),
} as const satisfies Record<string, Gpu>
type GpuName = keyof typeof gpus

/** Model, cores, RAM in GB and storage in GB of a whole machine. */
type Body = readonly [cpuModel: string, cpuCores: number, ramGb: number, storageGb: number]

// oxfmt-ignore
const bodies = {
  xeon8480: ['Intel Xeon Platinum 8480C',   112, 2_048, 30_720],
  xeon6960: ['Intel Xeon 6960P',            144, 3_072, 61_440],
  epyc9654: ['AMD EPYC 9654',               192, 2_304, 30_720],
  epyc9554: ['AMD EPYC 9554',               128, 1_152, 15_360],
  epyc7763: ['AMD EPYC 7763',               128, 1_024, 15_360],
  epyc7543: ['AMD EPYC 7543',                64,   512,  7_680],
  epyc7443: ['AMD EPYC 7443P',               24,   256,  3_840],
  xeon6338: ['Intel Xeon Gold 6338',         64,   512,  7_680],
  ryzen9:   ['AMD Ryzen Threadripper 3960X', 24,   128,  2_000],
} as const satisfies Record<string, Body>

const [east, west] = ['mock-fleet-east', 'mock-fleet-west'] as const
const [keeps, loses] = [true, false] as const

/** Site, region, supplier, GPU, machines, GPUs per machine, body, USD per GPU-hour, persistent storage. */
// oxfmt-ignore
const marketplacePools = [
  ['iad',  'us-east',    east, 'h100',     3, 8, 'xeon8480', '2.19', keeps],
  ['iad',  'us-east',    east, 'h200',     2, 8, 'epyc9654', '2.99', keeps],
  ['iad',  'us-east',    east, 'a100',     2, 8, 'epyc7763', '1.29', keeps],
  ['iad',  'us-east',    east, 'l40s',     2, 4, 'epyc7543', '0.84', loses],
  ['fra',  'eu-central', east, 'h100pcie', 2, 4, 'epyc9554', '1.79', keeps],
  ['fra',  'eu-central', east, 'a6000',    2, 4, 'xeon6338', '0.46', loses],
  ['fra',  'eu-central', east, 'rtx4090',  2, 8, 'epyc7543', '0.39', loses],
  ['pdx',  'us-west',    west, 'h100',     2, 8, 'xeon8480', '1.99', loses],
  ['pdx',  'us-west',    west, 'b200',     2, 8, 'xeon6960', '4.69', keeps],
  ['pdx',  'us-west',    west, 'rtx4090',  3, 4, 'epyc7443', '0.35', loses],
  ['pdx',  'us-west',    west, 'rtx3090',  3, 2, 'ryzen9',   '0.19', loses],
  ['sin',  'ap-south',   west, 'a100',     2, 4, 'epyc7543', '1.15', loses],
  ['sin',  'ap-south',   west, 'rtx3090',  1, 1, 'ryzen9',   '0.17', loses],
] as const satisfies readonly MarketplacePool[]
type MarketplacePool = readonly [
  site: string,
  region: string,
  supplier: string,
  gpu: GpuName,
  machines: number,
  gpusEach: number,
  body: keyof typeof bodies,
  usd: string,
  persists: boolean,
]

/** Site, region, GPU, network, machines. Eight GPUs each; the machines of one row are one cluster. */
// oxfmt-ignore
const virtualMachineHosts = [
  ['lab',  'mock-region',  'h100', 'ethernet',   2],
  ['lab',  'mock-region',  'h100', 'infiniband', 1],
  ['lab',  'mock-region',  'h200', 'ethernet',   1],
  ['lab',  'mock-region',  'h200', 'infiniband', 1],
  ['lab',  'mock-region',  'b200', 'ethernet',   1],
  ['lab',  'mock-region',  'b200', 'infiniband', 1],
  ['us1',  'us-central-1', 'h100', 'ethernet',   2],
  ['us1',  'us-central-1', 'h100', 'infiniband', 1],
  ['us1',  'us-central-1', 'h200', 'infiniband', 1],
  ['eun2', 'eu-north-2',   'h100', 'ethernet',   1],
  ['eun2', 'eu-north-2',   'h200', 'ethernet',   1],
  ['eun2', 'eu-north-2',   'b200', 'infiniband', 1],
  ['use1', 'us-east-1',    'h100', 'infiniband', 1],
  ['use1', 'us-east-1',    'h200', 'ethernet',   1],
  ['use1', 'us-east-1',    'b200', 'ethernet',   1],
] as const satisfies readonly HousePool[]

// oxfmt-ignore
const bareMetalClusters = [
  ['usc1', 'us-central-1', 'h100', 'infiniband', 4],
  ['usc1', 'us-central-1', 'h100', 'ethernet',   2],
  ['usc1', 'us-central-1', 'h200', 'infiniband', 2],
  ['ukc3', 'uk-central-3', 'h100', 'ethernet',   2],
  ['ukc3', 'uk-central-3', 'h200', 'infiniband', 4],
  ['euw3', 'eu-west-3',    'h100', 'ethernet',   2],
  ['euw3', 'eu-west-3',    'b200', 'infiniband', 4],
] as const satisfies readonly HousePool[]
type HousePool = readonly [
  site: string,
  region: string,
  gpu: 'h100' | 'h200' | 'b200',
  network: InventoryMachine['networkType'],
  machines: number,
]

const houseBodies = { h100: 'xeon8480', h200: 'epyc9654', b200: 'xeon6960' } as const
const HOUSE_GPUS_PER_MACHINE = 8
/** One machine has an unhealthy GPU, so that a demo shows it. */
const sickGpus: Readonly<Record<string, readonly number[]>> = { 'mock-pdx-rtx4090-02': [3] }

/** `scale` copies of the fleet, for benchmarks. */
export function scaledFleet(scale: number): InventoryMachine[] {
  const fleet = mockFleet()
  return Array.from({ length: scale }, (_, copy) =>
    copy === 0
      ? fleet
      : fleet.map((one) => ({ ...one, id: `${one.id}-c${copy}`, clusterName: `${one.clusterName}-c${copy}` })),
  ).flat()
}

export function mockFleet(): InventoryMachine[] {
  const counts = new Map<string, number>()
  const nextName = (site: string, gpuName: GpuName): string => {
    const stem = `mock-${site}-${gpuName}`
    const n = (counts.get(stem) ?? 0) + 1
    counts.set(stem, n)
    return `${stem}-${String(n).padStart(2, '0')}`
  }
  return [
    ...marketplacePools.flatMap((pool) => marketplaceMachines(pool, nextName)),
    ...virtualMachineHosts.flatMap((pool) => houseMachines('virtual-machine', pool, nextName)),
    ...bareMetalClusters.flatMap((pool) => houseMachines('bare-metal', pool, nextName)),
  ]
}

/**
 * Offers of a simulated cloud (`BERTH_MOCK_OFFERS`), one for each behavior of clouds: a cheap one that looks free and
 * is sold out, one with a count, one that costs more than customers pay, and a node pool that is rented in parts.
 */
export function mockOffers(): MockOffer[] {
  const offer = (id: string, change: Partial<MockOffer>): MockOffer => ({
    ...withoutFaults(machine(`mock-cloud-${id}`, 'h100', 'epyc7443')),
    clusterName: 'mock-cloud-us-east-1',
    region: 'us-east-1',
    offering: 'virtual-machine',
    networkType: 'ethernet',
    ethernetVariant: 'normal',
    gpusTotal: 2,
    priceUsdPerGpuHour: null,
    hasPersistentStorage: false,
    soldWhole: true,
    costUsdPerGpuHour: '1.80',
    capacity: 2,
    reportsCount: true,
    ...change,
  })
  return [
    offer('h100x2-spot', { costUsdPerGpuHour: '1.20', capacity: 0, reportsCount: false }),
    offer('h100x2', {}),
    offer('h100x2-premium', { costUsdPerGpuHour: '3.20', capacity: 4 }),
    offer('h200-pool', {
      ...withoutFaults(machine('mock-cloud-h200-pool', 'h200', 'epyc9654')),
      networkType: 'infiniband',
      ethernetVariant: null,
      gpusTotal: HOUSE_GPUS_PER_MACHINE,
      soldWhole: false,
      capacity: 1,
    }),
  ]
}

function withoutFaults({ gpusSick: _gpusSick, ...offer }: ReturnType<typeof machine>) {
  return offer
}

type NextName = (site: string, gpuName: GpuName) => string

function marketplaceMachines(pool: MarketplacePool, nextName: NextName): InventoryMachine[] {
  const [site, region, supplier, gpuName, count, gpusTotal, bodyName, priceUsdPerGpuHour, persists] = pool
  return Array.from({ length: count }, () => ({
    ...machine(nextName(site, gpuName), gpuName, bodyName),
    clusterName: `mock-${site}`,
    region,
    offering: 'marketplace',
    networkType: 'ethernet',
    ethernetVariant: 'normal',
    gpusTotal,
    priceUsdPerGpuHour,
    supplier,
    hasPersistentStorage: persists,
  }))
}

function houseMachines(offering: 'virtual-machine' | 'bare-metal', pool: HousePool, nextName: NextName) {
  const [site, region, gpuName, networkType, count] = pool
  const clusterName = `mock-${site}-${offering === 'bare-metal' ? 'bm' : 'vm'}-${gpuName}-${networkType}`
  return Array.from({ length: count }, (): InventoryMachine => ({
    ...machine(nextName(site, gpuName), gpuName, houseBodies[gpuName]),
    clusterName,
    region,
    offering,
    networkType,
    // Multi-node training needs RDMA.
    ethernetVariant: networkType === 'infiniband' ? null : offering === 'bare-metal' ? 'rocev2' : 'normal',
    gpusTotal: HOUSE_GPUS_PER_MACHINE,
    priceUsdPerGpuHour: null,
    supplier: null,
    hasPersistentStorage: offering === 'bare-metal',
  }))
}

function machine(id: string, gpuName: GpuName, bodyName: keyof typeof bodies) {
  const { clockMhz, tflops, bus, ...gpuColumns } = gpus[gpuName]
  const [cpuModel, cpuCores, ramGb, storageGb] = bodies[bodyName]
  return {
    id,
    ...gpuColumns,
    gpusSick: sickGpus[id] ?? [],
    hardware: {
      cpuModel,
      cpuCores,
      virtualCores: 2 * cpuCores,
      ramGb,
      storageGb,
      gpuClockMhz: clockMhz,
      gpuComputePower: tflops,
      gpuInterface: bus,
    },
  }
}
