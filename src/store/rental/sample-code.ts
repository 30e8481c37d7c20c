/**
 * Packs samples and summaries into bytes. One row has a fixed number of slots: six samples of a minute, or twelve
 * summaries of an hour. One minute of a machine with one GPU takes 165 bytes; as JSON it would be about 1,000.
 *
 *   version 1, number of GPUs, their indexes, a bit for each slot that is there (little-endian, two bytes), then the
 *   slots: a byte of flags, the values of the machine (float32), those of each GPU (two bytes each)
 */
import { addMs, type Instant } from '../../base/instant.ts'
import { gpuMetricNames, machineMetricNames } from '../../contract/rental-metrics.ts'
import {
  SAMPLE_MS,
  SAMPLES_SPAN_MS,
  SUMMARIES_SPAN_MS,
  SUMMARY_MS,
  type GpuValues,
  type Point,
  type Sample,
  type Value,
  type Values,
} from '../../domain/sample.ts'

const VERSION = 1
const MAX_GPUS = 64
const HEAD_BYTES = 4
const MACHINE_BYTES = machineMetricNames.length * 4
const GPU_BYTES = gpuMetricNames.length * 2
const MISSING = 0xffff

/** Units of the 16-bit values: tenths of a percent, 16 MiB (up to 1 TiB), tenths of a degree, tenths of a watt. */
const gpuUnits: Readonly<Record<(typeof gpuMetricNames)[number], number>> = {
  gpuUtilizationPercent: 0.1,
  gpuMemoryUsedMib: 16,
  gpuTemperatureCelsius: 0.1,
  gpuPowerWatts: 0.1,
}

const ACTIVE = 1
const ACTIVITY_KNOWN = 2

export function packSamples(minute: Instant, samples: readonly Sample[]): Buffer {
  const slots = new Map(samples.map((one) => [slotOf(one.at, minute, SAMPLE_MS), one]))
  return pack(slots, SAMPLES_SPAN_MS / SAMPLE_MS, (one) => ({ flags: flagsOf(one), values: [one] }))
}

export function unpackSamples(minute: Instant, data: Buffer): Sample[] {
  return unpack(data, 1).map(({ slot, flags, values: [values = nothing] }) => ({
    at: addMs(minute, slot * SAMPLE_MS),
    active: (flags & ACTIVITY_KNOWN) === 0 ? null : (flags & ACTIVE) !== 0,
    ...values,
  }))
}

export function packSummaries(hour: Instant, points: readonly Point[]): Buffer {
  const slots = new Map(points.map((one) => [slotOf(one.at, hour, SUMMARY_MS), one]))
  return pack(slots, SUMMARIES_SPAN_MS / SUMMARY_MS, (one) => ({ flags: 0, values: [one.average, one.maximum] }))
}

export function unpackSummaries(hour: Instant, data: Buffer): Point[] {
  return unpack(data, 2).map(({ slot, values: [average = nothing, maximum = average] }) => ({
    at: addMs(hour, slot * SUMMARY_MS),
    average,
    maximum,
  }))
}

const nothing: Values = { machine: machineMetricNames.map(() => null), gpus: [] }

function slotOf(at: Instant, start: Instant, slotMs: number): number {
  return Math.floor((at - start) / slotMs)
}

function flagsOf({ active }: Sample): number {
  return active === null ? 0 : ACTIVITY_KNOWN | (active ? ACTIVE : 0)
}

function pack<T>(
  slots: ReadonlyMap<number, T>,
  count: number,
  read: (one: T) => { flags: number; values: readonly Values[] },
): Buffer {
  const records = [...slots]
    .filter(([slot]) => slot >= 0 && slot < count)
    .toSorted(([a], [b]) => a - b)
    .map(([slot, one]) => ({ slot, ...read(one) }))
  const all = records.flatMap(({ values }) => values.flatMap(({ gpus }) => gpus.map(({ index }) => index)))
  const indexes = [...new Set(all)].toSorted((a, b) => a - b).slice(0, MAX_GPUS)
  const layers = records[0]?.values.length ?? 0
  const slotBytes = 1 + layers * (MACHINE_BYTES + indexes.length * GPU_BYTES)
  const data = Buffer.alloc(HEAD_BYTES + indexes.length + records.length * slotBytes)
  data[0] = VERSION
  data[1] = indexes.length
  data.writeUInt16LE(
    records.reduce((mask, { slot }) => mask | (1 << slot), 0),
    2,
  )
  data.set(indexes, HEAD_BYTES)
  let offset = HEAD_BYTES + indexes.length
  for (const { flags, values } of records) {
    data[offset] = flags
    offset += 1
    for (const layer of values) offset = packValues(data, offset, layer, indexes)
  }
  return data
}

function packValues(data: Buffer, start: number, values: Values, indexes: readonly number[]): number {
  let offset = start
  for (const value of machineMetricNames.map((_, n) => values.machine[n] ?? null)) {
    offset = data.writeFloatLE(value ?? Number.NaN, offset)
  }
  for (const index of indexes) {
    const gpuValues = values.gpus.find((gpu) => gpu.index === index)?.values
    for (const [n, name] of gpuMetricNames.entries()) offset = data.writeUInt16LE(toUnits(gpuValues?.[n], name), offset)
  }
  return offset
}

function toUnits(value: Value | undefined, name: keyof typeof gpuUnits): number {
  if (value === null || value === undefined) return MISSING
  return Math.min(Math.max(Math.round(value / gpuUnits[name]), 0), MISSING - 1)
}

interface Slot {
  readonly slot: number
  readonly flags: number
  readonly values: readonly Values[]
}

function unpack(data: Buffer, layers: number): Slot[] {
  if (data[0] !== VERSION) throw new Error(`samples in an unknown format: ${data[0]}`)
  const count = data[1] ?? 0
  const mask = data.readUInt16LE(2)
  const indexes = [...data.subarray(HEAD_BYTES, HEAD_BYTES + count)]
  let offset = HEAD_BYTES + count
  const slots: Slot[] = []
  for (let slot = 0; slot < 16; slot += 1) {
    if ((mask & (1 << slot)) === 0) continue
    const flags = data[offset] ?? 0
    offset += 1
    const values: Values[] = []
    for (let layer = 0; layer < layers; layer += 1) {
      values.push(unpackValues(data, offset, indexes))
      offset += MACHINE_BYTES + indexes.length * GPU_BYTES
    }
    slots.push({ slot, flags, values })
  }
  return slots
}

function unpackValues(data: Buffer, start: number, indexes: readonly number[]): Values {
  const machine = machineMetricNames.map((_, n) => {
    const value = data.readFloatLE(start + n * 4)
    return Number.isNaN(value) ? null : value
  })
  const gpus = indexes.map((index, at): GpuValues => {
    const from = start + MACHINE_BYTES + at * GPU_BYTES
    return { index, values: gpuMetricNames.map((name, n) => fromUnits(data.readUInt16LE(from + n * 2), name)) }
  })
  return { machine, gpus }
}

function fromUnits(units: number, name: keyof typeof gpuUnits): Value {
  return units === MISSING ? null : Math.round(units * gpuUnits[name] * 10) / 10
}
