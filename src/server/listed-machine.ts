/**
 * Machines of the marketplace on the wire. The listing is read often and by anyone, and most of its bytes are hardware
 * that many machines have in common: a page of 100 machines with 8 GPUs each is 130 kB of JSON, of which their own facts
 * are 45. So the JSON of a hardware is written once and kept.
 */
import { nanoUsdOf, usdToNumber, type NanoUsd } from '../base/money.ts'
import type { ListedHardware } from '../contract/marketplace.ts'
import type { ListedMachine, ListedRow, Occupant } from '../store/machine.ts'
import { shownSupplier } from './instance-view.ts'

/** Texts of hardware that are kept. A text has at most some 10 kB, for 64 GPUs. */
const MAX_TEXTS = 1_000
const hardwareTexts = new Map<string, string>()

/** A machine of the listing as JSON. */
export function listedJson(row: ListedRow, occupants: readonly Occupant[]): string {
  const facts = JSON.stringify(listedFacts(row, occupants))
  return `{"hardware":${hardwareJson(row)},${facts.slice(1)}`
}

function hardwareJson(row: ListedRow): string {
  const key = `${row.gpus_total} ${row.gpu_ram_mib} ${row.gpu_model} ${row.hardware_text}`
  const known = hardwareTexts.get(key)
  if (known !== undefined) return known
  const hardware = JSON.parse(row.hardware_text) as ListedMachine['hardware']
  const text = JSON.stringify(wholeHardware({ ...row, hardware }))
  if (hardwareTexts.size >= MAX_TEXTS) hardwareTexts.clear()
  hardwareTexts.set(key, text)
  return text
}

export function listedMachine(machine: ListedMachine, occupants: readonly Occupant[]) {
  return { ...listedFacts(machine, occupants), hardware: wholeHardware(machine) }
}

function listedFacts(machine: Omit<ListedMachine, 'hardware'>, occupants: readonly Occupant[]) {
  const free = machine.gpus_free
  const { simulation } = machine
  const gpu = { hardware_type: 'gpu' as const, model: machine.gpu_model, ram: machine.gpu_ram_mib }
  return {
    id: machine.id,
    status: machine.status,
    instances: occupants.map((occupant) => ({
      id: occupant.name,
      status: 'reserved',
      hardware: Array.from({ length: occupant.gpus }, () => ({ gpu })),
    })),
    location: { region: machine.region },
    network: { type: machine.network_type, simulated: simulation !== null, simulation },
    gpus_total: machine.gpus_total,
    gpus_reserved: machine.gpus_total - free,
    has_persistent_storage: machine.has_persistent_storage,
    supplier_id: shownSupplier(machine),
    pricing: { price: priceOf(machine.price_nano_per_gpu_hour ?? nanoUsdOf(0n)) },
    reserved: free <= 0 || machine.status !== 'node_ready',
    cluster_name: machine.cluster_name,
  }
}

export function priceOf(amount: NanoUsd) {
  return { amount: usdToNumber(amount), period: 'hourly', agent: 'platform' }
}

function wholeHardware(machine: ListedMachine): ListedHardware {
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
