/**
 * Machines of the marketplace on the wire. Anyone may read the listing, and most of its bytes are hardware that many
 * machines have in common: a page of 100 machines with 8 GPUs each is 158 kB of JSON, of which only 45 differ by
 * machine. So the JSON of each hardware is written once and kept as bytes, and a page is joined from bytes: joining and
 * encoding long texts took half of its time.
 */
import { nanoUsdOf, usdToNumber, type NanoUsd } from '../../base/money.ts'
import { remember } from '../../base/remember.ts'
import type { ListedHardware } from '../../contract/marketplace.ts'
import type { ListedMachine, ListedRow, Occupant } from '../../store/machine/listed-machine.ts'
import type { Page } from '../http/cursor.ts'

/** The number of hardware entries whose bytes are kept. Each has at most some 10 kB, for 64 GPUs. */
const MAX_KEPT = 1_000
const parts = new Map<string, Buffer>()

/** A page of the listing as JSON. */
export function listingJson({ rows, nextCursor }: Page<ListedRow>): Buffer {
  const machines = rows.flatMap((row, n) => {
    const facts = factsJson(row)
    return [hardwareJson(row), Buffer.from(n < rows.length - 1 ? `${facts},` : facts)]
  })
  const next = nextCursor === null ? '' : `,"next_cursor":${JSON.stringify(nextCursor)}`
  return Buffer.concat([Buffer.from('{"instances":['), ...machines, Buffer.from(`]${next}}`)])
}

/** Returns the beginning of a machine's JSON: its hardware. */
function hardwareJson(row: ListedRow): Buffer {
  const key = `${row.gpus_total} ${row.gpu_ram_mib} ${row.gpu_model} ${row.hardware_text}`
  const cached = parts.get(key)
  if (cached !== undefined) return cached
  const hardware = JSON.parse(row.hardware_text) as ListedMachine['hardware']
  const bytes = Buffer.from(`{"hardware":${JSON.stringify(wholeHardware({ ...row, hardware }))},`)
  remember(parts, key, bytes, MAX_KEPT)
  return bytes
}

/** Returns the remaining fields of the machine. */
function factsJson(row: ListedRow): string {
  return JSON.stringify(listedFacts(row, row.occupants ?? [])).slice(1)
}

export function listedMachine(machine: ListedMachine, occupants: readonly Occupant[]) {
  return { ...listedFacts(machine, occupants), hardware: wholeHardware(machine) }
}

function listedFacts(machine: Omit<ListedMachine, 'driver' | 'hardware'>, occupants: readonly Occupant[]) {
  const { simulation } = machine
  return {
    id: machine.id,
    status: machine.status,
    instances: occupants.map((occupant) => occupantOnWire(machine, occupant)),
    location: { region: machine.region },
    network: { type: machine.network_type, simulated: simulation !== null, simulation },
    gpus_total: machine.gpus_total,
    gpus_reserved: machine.gpus_total - machine.gpus_free,
    has_persistent_storage: machine.has_persistent_storage,
    supplier_id: shownSupplier(machine),
    pricing: { price: priceOf(machine.price_nano_per_gpu_hour ?? nanoUsdOf(0n)) },
    reserved: isReserved(machine),
    cluster_name: machine.cluster_name,
  }
}

function occupantOnWire(machine: Pick<ListedMachine, 'gpu_model' | 'gpu_ram_mib'>, { name, gpus }: Occupant) {
  const gpu = { hardware_type: 'gpu' as const, model: machine.gpu_model, ram: machine.gpu_ram_mib }
  return { id: name, status: 'reserved', hardware: Array.from({ length: gpus }, () => ({ gpu })) }
}

function isReserved(machine: Pick<ListedMachine, 'gpus_free' | 'status'>): boolean {
  return machine.gpus_free <= 0 || machine.status !== 'node_ready'
}

export function priceOf(amount: NanoUsd) {
  return { amount: usdToNumber(amount), period: 'hourly', agent: 'platform' }
}

function wholeHardware(
  machine: Pick<ListedMachine, 'hardware' | 'gpu_model' | 'gpu_ram_mib' | 'gpus_total'>,
): ListedHardware {
  const { cpuCores: cores, virtualCores, ramGb, storageGb } = machine.hardware
  return machineHardware(machine, machine.gpus_total, { cores, virtualCores, ramGb, storageGb })
}

export function machineHardware(
  machine: Pick<ListedMachine, 'hardware' | 'gpu_model' | 'gpu_ram_mib'>,
  gpus: number,
  size: { cores: number; virtualCores: number; ramGb: number; storageGb: number },
): ListedHardware {
  const { hardware } = machine
  const gpu = {
    hardware_type: 'gpu' as const,
    model: machine.gpu_model,
    clock_speed: hardware.gpuClockMhz,
    compute_power: hardware.gpuComputePower,
    ram: machine.gpu_ram_mib,
    interface: hardware.gpuInterface,
  }
  return {
    cpus: [{ hardware_type: 'cpu', model: hardware.cpuModel, cores: size.cores, virtual_cores: size.virtualCores }],
    gpus: Array.from({ length: gpus }, () => gpu),
    storage: [{ hardware_type: 'storage', capacity: size.storageGb }],
    ram: [{ hardware_type: 'ram', capacity: size.ramGb }],
  }
}

/** Returns the supplier as customers see it. */
export function shownSupplier(machine: Pick<ListedMachine, 'supplier_id'>): string {
  return machine.supplier_id ?? 'house'
}
