/** The latest measurements of rentals, and the same as Prometheus text. */
import { addMs, MINUTE_MS, type Instant } from '../../base/instant.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { gpuMetricNames, machineMetricNames } from '../../contract/rental-metrics.ts'
import type { App } from '../../app/app.ts'
import { simulatedNow, simulationOf } from '../../app/rental/rental-metrics.ts'
import type { Sample, Values } from '../../domain/sample.ts'
import { readMinutes } from '../../store/rental/rental-sample.ts'
import { listRunningRentals, type Rental } from '../../store/rental/rental.ts'
import { listRentedMachines, type RentedMachine } from '../../store/host/workload.ts'

type Latest = ResponseOf<Api['getRentalMetrics']>

export interface RentalUse {
  readonly simulated: boolean
  readonly gpus: Latest['gpus']
  readonly machines: Latest['machines']
}

/** A minute is written when it has ended, and another server may have measured it. */
const RECENT_MS = 3 * MINUTE_MS
const MIB_PER_GB = 1e9 / 1_048_576
const MAX_EXPORTED = 1_000

/** Leaves out rentals without any measurement. */
export async function readUse(app: App, rentals: readonly Rental[]): Promise<Map<number, RentalUse>> {
  const use = new Map<number, RentalUse>()
  for (const rental of rentals) {
    const simulated = simulatedUse(app, rental)
    if (simulated !== undefined) use.set(rental.id, simulated)
  }
  const byId = new Map(rentals.filter(({ id }) => !use.has(id)).map((rental) => [rental.id, rental]))
  const measuring = rentals.filter(({ id, driver }) => byId.has(id) && app.drivers.get(driver)?.measure !== undefined)
  for (const [id, recorded] of await recordedUse(app, measuring)) {
    use.set(id, recorded)
    byId.delete(id)
  }
  const machines = await listRentedMachines(app.database.db, [...byId.keys()])
  for (const rental of byId.values()) {
    const ownMachines = machines.filter(({ rentalId }) => rentalId === rental.id)
    if (ownMachines.length === 0) continue
    use.set(rental.id, {
      simulated: false,
      gpus: ownMachines.flatMap(gpusOf),
      machines: ownMachines.flatMap((machine) => machineOf(rental, machine)),
    })
  }
  return use
}

/** Reads the last sample of rentals whose driver measures them (reconcile/measure.ts). Older ones are history. */
async function recordedUse(app: App, rentals: readonly Rental[]): Promise<Map<number, RentalUse>> {
  const now = app.clock.now()
  const from = addMs(now, -RECENT_MS)
  const ids = rentals.filter(({ status }) => status === 'Running').map(({ id }) => id)
  const minutes = [...(await readMinutes(app.database.db, ids, from, now)), ...(app.recorder?.unsaved(ids) ?? [])]
  const use = new Map<number, RentalUse>()
  for (const rental of rentals) {
    const samples = minutes.filter(({ rentalId }) => rentalId === rental.id).flatMap(({ samples }) => samples)
    const last = samples.reduce<Sample | undefined>((a, b) => (a === undefined || b.at >= a.at ? b : a), undefined)
    const machineId = rental.spec.nodes[0]?.machineId
    if (last === undefined || last.at < from || machineId === undefined) continue
    const { at } = last
    use.set(rental.id, {
      simulated: false,
      gpus: last.gpus.map((gpu) => gpuRecord(machineId, at, gpu)),
      machines: [machineRecord(rental, machineId, at, last)],
    })
  }
  return use
}

function gpusOf({ machineId, gpuIndexes, measured }: RentedMachine): Latest['gpus'] {
  return gpuIndexes.flatMap((gpuIndex) => {
    const gpu = measured?.metrics.gpus.find((one) => one.index === gpuIndex)
    if (gpu === undefined || measured === null) return []
    const { index: _, ...values } = gpu
    return [{ machineId, gpuIndex, at: measured.at, ...values }]
  })
}

function machineOf(rental: Rental, { machineId, workloadId, measured }: RentedMachine): Latest['machines'] {
  const workload = measured?.metrics.workloads?.find(({ id }) => id === workloadId)
  if (workload === undefined || measured === null) return []
  const { cpuPercent, memoryUsedMib, memoryTotalMib, diskUsedMib } = workload
  const { networkRxBytesPerSecond, networkTxBytesPerSecond } = workload
  return [
    {
      machineId,
      at: measured.at,
      cpuPercent,
      memoryUsedMib,
      memoryTotalMib,
      diskUsedMib,
      diskTotalMib: rental.spec.resources.storageGb * MIB_PER_GB,
      networkRxBytesPerSecond,
      networkTxBytesPerSecond,
    },
  ]
}

/** undefined: the rental is not simulated, or does not run. */
function simulatedUse(app: App, rental: Rental): RentalUse | undefined {
  const simulate = simulationOf(app, rental)
  if (simulate === undefined || rental.status !== 'Running') return undefined
  const at = simulatedNow(app.clock.now())
  const nodes = rental.spec.nodes.map(({ machineId }, node) => ({ machineId, values: simulate(node, at) }))
  return {
    simulated: true,
    gpus: nodes.flatMap(({ machineId, values }) => values.gpus.map((gpu) => gpuRecord(machineId, at, gpu))),
    machines: nodes.map(({ machineId, values }) => machineRecord(rental, machineId, at, values)),
  }
}

function machineRecord(
  rental: Rental,
  machineId: string,
  at: Instant,
  { machine }: Values,
): Latest['machines'][number] {
  const { ramGb, storageGb } = rental.spec.resources
  return {
    machineId,
    at,
    ...(Object.fromEntries(machineMetricNames.map((name, n) => [name, machine[n] ?? null])) as Record<
      (typeof machineMetricNames)[number],
      number | null
    >),
    memoryTotalMib: ramGb * MIB_PER_GB,
    diskTotalMib: storageGb * MIB_PER_GB,
  }
}

function gpuRecord(machineId: string, at: Instant, { index, values }: Values['gpus'][number]): Latest['gpus'][number] {
  const valueOf = (name: (typeof gpuMetricNames)[number]): number | null => values[gpuMetricNames.indexOf(name)] ?? null
  return {
    machineId,
    gpuIndex: index,
    at,
    utilizationPercent: valueOf('gpuUtilizationPercent'),
    memoryUsedMib: valueOf('gpuMemoryUsedMib'),
    memoryTotalMib: null,
    powerWatts: valueOf('gpuPowerWatts'),
    temperatureCelsius: valueOf('gpuTemperatureCelsius'),
  }
}

interface Gauge {
  readonly name: string
  readonly help: string
  readonly samples: string[]
}

/** All running rentals of an account in Prometheus text format. */
export async function exportUse(app: App, accountId: string): Promise<string> {
  const rentals = await listRunningRentals(app.database.db, accountId, MAX_EXPORTED)
  const use = await readUse(app, rentals)
  const gauges = new Map<string, Gauge>()
  const add = (name: string, help: string, labels: Readonly<Record<string, string>>, value: number | null): void => {
    if (value === null) return
    const gauge = gauges.get(name) ?? { name: `berth_rental_${name}`, help, samples: [] }
    gauges.set(name, gauge)
    gauge.samples.push(`${gauge.name}${formatLabels(labels)} ${value}`)
  }
  for (const rental of rentals) {
    const latest = use.get(rental.id)
    const labels = { rental: rental.name, rental_id: String(rental.id), kind: rental.kind }
    const simulated = latest?.simulated === true ? { simulated: 'true' } : {}
    add('up', '1 while the machine is running, 0 while contact is lost', labels, rental.status === 'Running' ? 1 : 0)
    for (const gpu of latest?.gpus ?? []) {
      const gpuLabels = { ...labels, machine: gpu.machineId, gpu: String(gpu.gpuIndex), ...simulated }
      add('gpu_utilization_percent', 'GPU utilization', gpuLabels, gpu.utilizationPercent)
      add('gpu_memory_used_bytes', 'GPU memory in use', gpuLabels, bytesOf(gpu.memoryUsedMib))
      add('gpu_memory_total_bytes', 'GPU memory', gpuLabels, bytesOf(gpu.memoryTotalMib))
      add('gpu_temperature_celsius', 'GPU temperature', gpuLabels, gpu.temperatureCelsius)
      add('gpu_power_watts', 'GPU power draw', gpuLabels, gpu.powerWatts)
    }
    for (const machine of latest?.machines ?? []) {
      const machineLabels = { ...labels, machine: machine.machineId, ...simulated }
      add('cpu_percent', 'Use of the CPUs that the rental has', machineLabels, machine.cpuPercent)
      add('memory_used_bytes', 'Memory in use', machineLabels, bytesOf(machine.memoryUsedMib))
      add('memory_total_bytes', 'Memory that the rental has', machineLabels, bytesOf(machine.memoryTotalMib))
      add('disk_used_bytes', 'Disk space in use', machineLabels, bytesOf(machine.diskUsedMib))
      add('disk_total_bytes', 'Disk space that the rental has', machineLabels, bytesOf(machine.diskTotalMib))
      add(
        'network_receive_bytes_per_second',
        'Network traffic received',
        machineLabels,
        machine.networkRxBytesPerSecond,
      )
      add('network_transmit_bytes_per_second', 'Network traffic sent', machineLabels, machine.networkTxBytesPerSecond)
    }
  }
  return [...gauges.values()]
    .map(({ name, help, samples }) => [`# HELP ${name} ${help}`, `# TYPE ${name} gauge`, ...samples, ''].join('\n'))
    .join('')
}

function bytesOf(mib: number | null): number | null {
  return mib === null ? null : Math.round(mib * 1_048_576)
}

function formatLabels(labels: Readonly<Record<string, string>>): string {
  const escaped = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
  return `{${Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value)}"`)
    .join(',')}}`
}
