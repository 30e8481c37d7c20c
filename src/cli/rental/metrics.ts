/** `berth metrics`: what a machine uses now, and with `--since` what it has used. */
import type { Reply } from '../../client/client.ts'
import { metricValue, metricViews, sparkText, usedOf } from '../../view/metric.ts'
import type { OwnMachine } from '../../view/own-machine.ts'
import { utcTime } from '../../view/time.ts'
import { ownMachine } from './own-machine.ts'
import { tableOf } from '../kit/record.ts'
import { show } from '../kit/row.ts'
import type { Content } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'

const CHART_CHARS = 60

type Metrics = Reply<'getRentalMetrics'>
type Series = NonNullable<Metrics['history']>['series'][number]

export const rows: readonly Row[] = [
  show<'getRentalMetrics', unknown, OwnMachine>('metrics', 'getRentalMetrics', 'show metrics of a machine', {
    target: ownMachine,
    flags: {
      from: { text: '--since <when>  show the history since this time or span, such as 6h', isPast: true },
      to: { text: '--until <when>  end of the history', isPast: true },
      step: '--step <seconds>  seconds between values',
    },
    examples: ['berth metrics web', 'berth metrics web --watch', 'berth metrics web --since 6h'],
    content: (metrics) => {
      const note = metrics.simulated ? ['The machine is simulated, and its metrics are made up.', ''] : []
      return [...note, ...(metrics.history === undefined ? describeNow(metrics) : describeHistory(metrics.history))]
    },
  }),
]

function describeNow({ gpus, machines, reason }: Metrics): Content[] {
  if (gpus.length === 0 && machines.length === 0) return [reason ?? 'There are no metrics yet.']
  const gpuTable = tableOf(gpus, [
    'machineId:MACHINE',
    'gpuIndex:GPU',
    {
      LOAD: (gpu) => metricValue('gpuUtilizationPercent', gpu.utilizationPercent),
      MEMORY: (gpu) => usedOf(gpu.memoryUsedMib, gpu.memoryTotalMib) ?? '—',
      TEMPERATURE: (gpu) => metricValue('gpuTemperatureCelsius', gpu.temperatureCelsius),
      POWER: (gpu) => metricValue('gpuPowerWatts', gpu.powerWatts),
    },
    'at:TIME',
  ])
  const machineTable = tableOf(machines, [
    'machineId:MACHINE',
    {
      CPU: (machine) => metricValue('cpuPercent', machine.cpuPercent),
      MEMORY: (machine) => usedOf(machine.memoryUsedMib, machine.memoryTotalMib) ?? '—',
      DISK: (machine) => usedOf(machine.diskUsedMib, machine.diskTotalMib) ?? '—',
      RECEIVED: (machine) => metricValue('networkRxBytesPerSecond', machine.networkRxBytesPerSecond),
      SENT: (machine) => metricValue('networkTxBytesPerSecond', machine.networkTxBytesPerSecond),
    },
    'at:TIME',
  ])
  return [...(gpus.length === 0 ? [] : [gpuTable]), ...(machines.length === 0 ? [] : ['', machineTable])]
}

function describeHistory({ from, to, stepSeconds, series }: NonNullable<Metrics['history']>): Content[] {
  if (series.length === 0) return ['Nothing was measured in this time.']
  return [
    tableOf(series, [
      {
        METRIC: titleOf,
        AVERAGE: ({ metric, average }) => metricValue(metric, averageOf(average)),
        MAXIMUM: ({ metric, maximum }) => metricValue(metric, maximumOf(maximum)),
        HISTORY: ({ metric, average }) => sparkText(average, CHART_CHARS, metricViews[metric].max),
      },
    ]),
    '',
    `From ${utcTime(from)} to ${utcTime(to)}, one value every ${stepSeconds} s.`,
  ]
}

function titleOf({ metric, machineIndex, gpuIndex }: Series): string {
  const machine = machineIndex === 0 ? '' : `machine ${machineIndex} `
  return `${machine}${metricViews[metric].title}${gpuIndex === null ? '' : ` ${gpuIndex}`}`
}

function averageOf(values: ReadonlyArray<number | null>): number | null {
  const measuredValues = values.filter((value) => value !== null)
  return measuredValues.length === 0 ? null : measuredValues.reduce((sum, one) => sum + one, 0) / measuredValues.length
}

function maximumOf(values: ReadonlyArray<number | null>): number | null {
  const measuredValues = values.filter((value) => value !== null)
  return measuredValues.length === 0 ? null : Math.max(...measuredValues)
}
