/** The listing puts its JSON together from parts; it must be that of the objects. */
import { expect, test } from 'vitest'
import { nanoUsdOf } from '../../base/money.ts'
import { api } from '../../contract/api.ts'
import type { ListedMachine, Occupant } from '../../store/machine/listed-machine.ts'
import { listedMachine, listingJson } from './listed-machine.ts'

const plain: ListedMachine = {
  id: 'node-1',
  driver: 'mock',
  cluster_name: 'cluster-1',
  region: 'region-1',
  supplier_id: null,
  status: 'node_ready',
  gpu_model: 'NVIDIA H100 80GB HBM3',
  gpu_ram_mib: 81_920,
  network_type: 'ethernet',
  gpus_total: 8,
  gpus_claimed: 0,
  gpus_free: 8,
  price_nano_per_gpu_hour: nanoUsdOf(2_490_000_001n),
  has_persistent_storage: true,
  simulation: null,
  hardware: {
    cpuModel: 'AMD EPYC 9354',
    cpuCores: 32,
    virtualCores: 64,
    ramGb: 1_024,
    storageGb: 15_360,
    gpuClockMhz: 1_980,
    gpuComputePower: 990,
    gpuInterface: 'SXM5',
  },
}

const odd: ListedMachine = {
  ...plain,
  id: 'nœud "2"\\',
  cluster_name: 'cluster "ü"',
  region: 'région\n',
  supplier_id: 'acc_"5"',
  status: 'node_lost',
  gpu_model: 'GPU "€"',
  gpus_total: 3,
  gpus_claimed: 3,
  gpus_free: 0,
  price_nano_per_gpu_hour: null,
  simulation: 'machine',
  hardware: { ...plain.hardware, cpuModel: 'CPU "é"' },
}

const occupants = new Map<string, Occupant[]>([[odd.id, [{ name: 'quick-"fox"', gpus: 2 }]]])

test.each([
  ['no machine', [], null],
  ['one machine', [plain], null],
  ['several machines and a next page', [plain, odd, { ...plain, id: 'node-3', gpus_free: 1 }], 'bm9kZS0z'],
] as const)('writes what the contract says: %s', (_, machines, nextCursor) => {
  const rows = machines.map(({ hardware, ...row }) => ({
    ...row,
    hardware_text: JSON.stringify(hardware),
    occupants: occupants.get(row.id) ?? null,
  }))
  const written: unknown = JSON.parse(listingJson({ rows, nextCursor }).toString())
  expect(written).toEqual({
    instances: machines.map((machine) => listedMachine(machine, occupants.get(machine.id) ?? [])),
    ...(nextCursor === null ? {} : { next_cursor: nextCursor }),
  })
  expect(api.listMachines.response.parse(written)).toEqual(written)
})
