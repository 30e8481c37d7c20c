/** The usage of a machine over time, and the latest values. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { metricValue, metricViews, usedOf } from '../../../src/view/metric.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { LineChart } from '../../ui/line-chart.tsx'
import { useNow } from '../../ui/now.ts'
import { Table, type Column } from '../../ui/table.tsx'

const HOUR_S = 3_600
/** For each range, the seconds shown and the seconds between two reads. */
const ranges = {
  '1 h': { spanS: HOUR_S, stepS: 10 },
  '6 h': { spanS: 6 * HOUR_S, stepS: 60 },
  '24 h': { spanS: 24 * HOUR_S, stepS: 300 },
  '7 d': { spanS: 168 * HOUR_S, stepS: 1_800 },
  '30 d': { spanS: 720 * HOUR_S, stepS: 7_200 },
} as const
type Range = keyof typeof ranges
/** More missing values than this are a gap. */
const MAX_PENDING_STEPS = 6

type Metrics = Reply<'getRentalMetrics'>
type History = NonNullable<Metrics['history']>
type Gpu = Metrics['gpus'][number]

export function RentalMetrics({ id, isRunning }: { id: string; isRunning: boolean }) {
  const [range, setRange] = useState<Range>('1 h')
  const { spanS, stepS } = ranges[range]
  // Rounded to a step, so that data is read once per step and not every second.
  const untilS = Math.floor(useNow() / 1_000 / stepS) * stepS
  const from = new Date((untilS - spanS) * 1_000).toISOString()
  const metrics = useCall(
    'getRentalMetrics',
    { params: { id }, query: { from, step: stepS } },
    { keepsLast: true, ...(isRunning && range === '1 h' ? { everyMs: 5_000 } : {}) },
  )
  return (
    <div className="flex flex-col gap-4">
      <div role="group" aria-label="Time range" className="flex flex-wrap gap-1">
        {(Object.keys(ranges) as Range[]).map((name) => (
          <Button
            key={name}
            look={name === range ? 'primary' : 'secondary'}
            aria-pressed={name === range}
            onClick={() => setRange(name)}
          >
            {name}
          </Button>
        ))}
      </div>
      <Answer of={metrics}>{(reply) => <Charts metrics={reply} />}</Answer>
    </div>
  )
}

function Charts({ metrics: { gpus, history, reason, simulated } }: { metrics: Metrics }) {
  if (history === undefined || history.series.length === 0) {
    return <Empty title="No metrics">{reason ?? 'Nothing was measured in this time.'}</Empty>
  }
  return (
    <>
      {simulated && <p className="text-sm text-muted">The machine is simulated, and its metrics are made up.</p>}
      <div className="grid grid-cols-1 gap-4 xl:grid-cols-2">
        {charts
          .filter(({ metrics }) => history.series.some(({ metric }) => metrics.some((one) => one === metric)))
          .map((chart) => (
            <Card key={chart.title} title={chart.title}>
              <MetricChart chart={chart} history={history} />
            </Card>
          ))}
      </div>
      {gpus.length > 0 && (
        <Table label="Latest samples" columns={columnsOf(gpus)} rows={gpus} rowKey={gpuKey} empty={null} />
      )}
    </>
  )
}

type Metric = History['series'][number]['metric']

interface Chart {
  readonly title: string
  readonly metrics: readonly Metric[]
}

const charts: readonly Chart[] = [
  ...(['gpuUtilizationPercent', 'gpuMemoryUsedMib', 'gpuPowerWatts', 'gpuTemperatureCelsius'] as const).map(chartOf),
  ...(['cpuPercent', 'memoryUsedMib', 'diskUsedMib'] as const).map(chartOf),
  { title: 'Network', metrics: ['networkRxBytesPerSecond', 'networkTxBytesPerSecond'] },
]

function chartOf(metric: Metric): Chart {
  return { title: metricViews[metric].title, metrics: [metric] }
}

function MetricChart({ chart, history }: { chart: Chart; history: History }) {
  const [first = 'cpuPercent'] = chart.metrics
  const { format, max } = metricViews[first]
  const series = history.series.filter(({ metric }) => chart.metrics.includes(metric))
  const startS = Date.parse(history.from) / 1_000
  const length = knownLength(series)
  return (
    <LineChart
      label={chart.title}
      times={Array.from({ length }, (_, n) => startS + n * history.stepSeconds)}
      series={series.map((one) => ({ label: labelOf(one, history, chart), values: one.average.slice(0, length) }))}
      format={format}
      {...(max === undefined ? {} : { max })}
    />
  )
}

/** The length of the series without the newest steps, for which no sample has arrived yet. */
function knownLength(series: History['series']): number {
  const length = series[0]?.average.length ?? 0
  const lengths = series.map(({ average }) => average.findLastIndex((value) => value !== null) + 1)
  return Math.max(...lengths, length - MAX_PENDING_STEPS, 0)
}

function labelOf(
  { metric, machineIndex, gpuIndex }: History['series'][number],
  history: History,
  chart: Chart,
): string {
  const isAlone = history.series.every((one) => one.machineIndex === machineIndex)
  const machine = isAlone ? '' : `Machine ${machineIndex} `
  if (gpuIndex !== null) return `${machine}GPU ${gpuIndex}`
  return `${machine}${chart.metrics.length > 1 ? metricViews[metric].title.replace('Network ', '') : chart.title}`
}

function columnsOf(gpus: readonly Gpu[]): ReadonlyArray<Column<Gpu>> {
  const right = (header: string, cell: (gpu: Gpu) => string): Column<Gpu> => {
    return { name: header, header, align: 'right', cell }
  }
  return [
    { name: 'gpu', header: 'GPU', cell: (gpu) => nameAmong(gpus, gpu) },
    right('Utilization', (gpu) => metricValue('gpuUtilizationPercent', gpu.utilizationPercent)),
    right('Memory', (gpu) => usedOf(gpu.memoryUsedMib, gpu.memoryTotalMib) ?? '—'),
    right('Power', (gpu) => metricValue('gpuPowerWatts', gpu.powerWatts)),
    right('Temperature', (gpu) => metricValue('gpuTemperatureCelsius', gpu.temperatureCelsius)),
  ]
}

function gpuKey({ machineId, gpuIndex }: Gpu): string {
  return `${machineId} ${gpuIndex}`
}

/** Adds the machine to the name if there are several, since GPU numbers repeat. */
function nameAmong(gpus: readonly Gpu[], { machineId, gpuIndex }: Gpu): string {
  const isAlone = gpus.every((gpu) => gpu.machineId === machineId)
  return isAlone ? `GPU ${gpuIndex}` : `${machineId} GPU ${gpuIndex}`
}
