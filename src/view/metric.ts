/** Metrics of rentals: titles and values as people read them. */
import type { MetricName } from '../contract/rental-metrics.ts'

/** A gigabyte is a billion bytes here as in the sizes of disks and GPUs. */
const GB_PER_MIB = 1_048_576 / 1e9

export interface MetricView {
  readonly title: string
  readonly format: (value: number) => string
  /** Upper end of a chart. */
  readonly max?: number
}

const percent = (value: number): string => `${Math.round(value)}%`
const inGb = (mib: number): string => `${(mib * GB_PER_MIB).toFixed(1)} GB`

export const metricViews: Readonly<Record<MetricName, MetricView>> = {
  gpuUtilizationPercent: { title: 'GPU utilization', format: percent, max: 100 },
  gpuMemoryUsedMib: { title: 'GPU memory', format: inGb },
  gpuTemperatureCelsius: { title: 'GPU temperature', format: (value) => `${Math.round(value)} °C` },
  gpuPowerWatts: { title: 'GPU power', format: (value) => `${Math.round(value)} W` },
  cpuPercent: { title: 'CPU', format: percent, max: 100 },
  memoryUsedMib: { title: 'Memory', format: inGb },
  diskUsedMib: { title: 'Disk', format: inGb },
  networkRxBytesPerSecond: { title: 'Network received', format: rate },
  networkTxBytesPerSecond: { title: 'Network sent', format: rate },
}

/** `1.5 MB/s` */
function rate(bytesPerSecond: number): string {
  const units = ['B/s', 'kB/s', 'MB/s', 'GB/s'] as const
  let value = bytesPerSecond
  let unit = 0
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000
    unit += 1
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`
}

/** `12.0 of 80.0 GB`, or without the total where it is unknown. */
export function usedOf(usedMib: number | null, totalMib: number | null): string | null {
  if (usedMib === null) return null
  if (totalMib === null) return inGb(usedMib)
  return `${(usedMib * GB_PER_MIB).toFixed(1)} of ${inGb(totalMib)}`
}

/** A value, or a dash where it was not measured. */
export function metricValue(metric: MetricName, value: number | null | undefined): string {
  return value === null || value === undefined ? '—' : metricViews[metric].format(value)
}

const BLOCKS = '▁▂▃▄▅▆▇█'

/** A chart of one line, at most `width` characters wide. A gap is a space. */
export function sparkText(values: ReadonlyArray<number | null>, width: number, max?: number): string {
  const perChar = Math.max(1, Math.ceil(values.length / width))
  const measuredValues = values.filter((value) => value !== null)
  const top = Math.max(max ?? 0, ...measuredValues, 1e-9)
  let text = ''
  for (let at = 0; at < values.length; at += perChar) {
    const part = values.slice(at, at + perChar).filter((value) => value !== null)
    const mean = part.reduce((sum, one) => sum + one, 0) / part.length
    text +=
      part.length === 0 ? ' ' : (BLOCKS[Math.min(BLOCKS.length - 1, Math.floor((mean / top) * BLOCKS.length))] ?? ' ')
  }
  return text
}
