/** The current usage of a running machine, for the strip at the top of its page. */
import type { ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { metricValue, usedOf } from '../../../src/view/metric.ts'
import { useCall } from '../../api/query.ts'
import { SkeletonText } from '../../ui/skeleton.tsx'

const EVERY_MS = 5_000

type Metrics = Reply<'getRentalMetrics'>

export function LiveMetrics({ id }: { id: string }) {
  const { data } = useCall('getRentalMetrics', { params: { id } }, { everyMs: EVERY_MS })
  const isMeasured = data === undefined || data.gpus.length > 0 || data.machines.length > 0
  return (
    <dl aria-label="Live metrics" className="grid min-h-11 grid-cols-2 gap-x-6 gap-y-2 sm:grid-cols-4 xl:grid-cols-8">
      {isMeasured ? (
        factsOf(data).map(([name, value]) => (
          <div key={name} className="min-w-0">
            <dt className="text-xs whitespace-nowrap text-muted">{name}</dt>
            <dd className="text-sm font-medium tabular-nums">{value}</dd>
          </div>
        ))
      ) : (
        <div className="col-span-full">
          <dt className="text-sm text-muted">Live metrics</dt>
          <dd className="text-sm">{data.reason ?? 'Not measured yet'}</dd>
        </div>
      )}
    </dl>
  )
}

/** The number of facts is the same before and after the first read, so that nothing moves. */
function factsOf(metrics: Metrics | undefined): ReadonlyArray<readonly [string, ReactNode]> {
  const { gpus = [], machines = [] } = metrics ?? {}
  const textOrSkeleton = (text: string): ReactNode => (metrics === undefined ? <SkeletonText className="w-16" /> : text)
  const machine = totalOf(machines)
  return [
    [
      'GPU utilization',
      textOrSkeleton(metricValue('gpuUtilizationPercent', meanOf(gpus.map((gpu) => gpu.utilizationPercent)))),
    ],
    [
      'GPU memory',
      textOrSkeleton(
        usedOf(sumOf(gpus.map((gpu) => gpu.memoryUsedMib)), sumOf(gpus.map((gpu) => gpu.memoryTotalMib))) ?? '—',
      ),
    ],
    [
      'GPU temperature',
      textOrSkeleton(metricValue('gpuTemperatureCelsius', maxOf(gpus.map((gpu) => gpu.temperatureCelsius)))),
    ],
    ['GPU power', textOrSkeleton(metricValue('gpuPowerWatts', sumOf(gpus.map((gpu) => gpu.powerWatts))))],
    ['CPU', textOrSkeleton(metricValue('cpuPercent', machine.cpu))],
    ['Memory', textOrSkeleton(usedOf(machine.memory, machine.memoryTotal) ?? '—')],
    ['Disk', textOrSkeleton(usedOf(machine.disk, machine.diskTotal) ?? '—')],
    [
      'Network in, out',
      textOrSkeleton(
        `${metricValue('networkRxBytesPerSecond', machine.received)}, ${metricValue('networkTxBytesPerSecond', machine.sent)}`,
      ),
    ],
  ]
}

function totalOf(machines: Metrics['machines']) {
  return {
    cpu: meanOf(machines.map((one) => one.cpuPercent)),
    memory: sumOf(machines.map((one) => one.memoryUsedMib)),
    memoryTotal: sumOf(machines.map((one) => one.memoryTotalMib)),
    disk: sumOf(machines.map((one) => one.diskUsedMib)),
    diskTotal: sumOf(machines.map((one) => one.diskTotalMib)),
    received: sumOf(machines.map((one) => one.networkRxBytesPerSecond)),
    sent: sumOf(machines.map((one) => one.networkTxBytesPerSecond)),
  }
}

type Values = ReadonlyArray<number | null>

/** null if any value is unknown: a partial sum would mislead. */
function sumOf(values: Values): number | null {
  const measuredValues = values.filter((value) => value !== null)
  return measuredValues.length === 0 || measuredValues.length < values.length
    ? null
    : measuredValues.reduce((sum, one) => sum + one, 0)
}

function meanOf(values: Values): number | null {
  const sum = sumOf(values)
  return sum === null ? null : sum / values.length
}

function maxOf(values: Values): number | null {
  const measuredValues = values.filter((value) => value !== null)
  return measuredValues.length === 0 ? null : Math.max(...measuredValues)
}
