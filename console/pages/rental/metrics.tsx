/** GPU metrics of a machine. The server keeps only the last sample, so charts start when the page is opened. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { useCall } from '../../api/query.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Card } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { LineChart } from '../../ui/line-chart.tsx'
import { Table } from '../../ui/table.tsx'

const EVERY_MS = 2_000
/** Ten minutes of them. */
const MAX_SAMPLES = 300

type Metrics = Reply<'getRentalMetrics'>
type Gpu = Metrics['gpus'][number]

interface Sample {
  readonly atS: number
  readonly gpus: readonly Gpu[]
}

export function RentalMetrics({ id, isRunning }: { id: string; isRunning: boolean }) {
  const metrics = useCall('getRentalMetrics', { params: { id } }, isRunning ? { everyMs: EVERY_MS } : {})
  const samples = useSamples(metrics.data)
  return (
    <Answer of={metrics}>
      {({ gpus, reason }) =>
        gpus.length === 0 ? (
          <Empty title="No metrics">{reason ?? 'The GPUs have not reported yet.'}</Empty>
        ) : (
          <div className="flex flex-col gap-4">
            <div className="grid grid-cols-1 gap-4 xl:grid-cols-2">
              {measures
                .filter(({ read }) => gpus.some((gpu) => read(gpu) !== null))
                .map((measure) => (
                  <Card key={measure.title} title={measure.title}>
                    <MeasureChart measure={measure} samples={samples} gpus={gpus} />
                  </Card>
                ))}
            </div>
            <Table label="Latest samples" columns={columnsOf(gpus)} rows={gpus} rowKey={gpuKey} empty={null} />
          </div>
        )
      }
    </Answer>
  )
}

interface Measure {
  readonly title: string
  readonly read: (gpu: Gpu) => number | null
  readonly format: (value: number) => string
  readonly max?: (gpus: readonly Gpu[]) => number | undefined
}

const MIB_PER_GIB = 1_024
const percent = (value: number): string => `${Math.round(value)} %`
const gib = (value: number): string => `${value.toFixed(1)} GiB`
const watts = (value: number): string => `${Math.round(value)} W`
const celsius = (value: number): string => `${Math.round(value)} °C`
const inGib = (mib: number | null): number | null => (mib === null ? null : mib / MIB_PER_GIB)

const measures: readonly Measure[] = [
  { title: 'Utilization', read: (gpu) => gpu.utilizationPercent, format: percent, max: () => 100 },
  {
    title: 'Memory',
    read: (gpu) => inGib(gpu.memoryUsedMib),
    format: gib,
    max: (gpus) => Math.max(...gpus.map((gpu) => inGib(gpu.memoryTotalMib) ?? 0)) || undefined,
  },
  { title: 'Power', read: (gpu) => gpu.powerWatts, format: watts },
  { title: 'Temperature', read: (gpu) => gpu.temperatureCelsius, format: celsius },
]

function MeasureChart({
  measure,
  samples,
  gpus,
}: {
  measure: Measure
  samples: readonly Sample[]
  gpus: readonly Gpu[]
}) {
  const max = measure.max?.(gpus)
  return (
    <LineChart
      label={`GPU ${measure.title.toLowerCase()}`}
      times={samples.map(({ atS }) => atS)}
      series={gpus.map((gpu) => ({
        label: nameAmong(gpus, gpu),
        values: samples.map((sample) => {
          const then = sample.gpus.find((one) => gpuKey(one) === gpuKey(gpu))
          return then === undefined ? null : measure.read(then)
        }),
      }))}
      format={measure.format}
      {...(max === undefined ? {} : { max })}
    />
  )
}

const cellOf = (value: number | null, format: (value: number) => string): string | null =>
  value === null ? null : format(value)

function columnsOf(gpus: readonly Gpu[]): Columns<Gpu> {
  return [
    textColumn('GPU', (gpu) => nameAmong(gpus, gpu)),
    ...measures.map(({ title, read, format }) =>
      textColumn<Gpu>(title, (gpu) => cellOf(read(gpu), format), { align: 'right' }),
    ),
    textColumn('Total memory', (gpu) => cellOf(inGib(gpu.memoryTotalMib), gib), { align: 'right' }),
  ]
}

function gpuKey({ machineId, gpuIndex }: Gpu): string {
  return `${machineId} ${gpuIndex}`
}

/** Rentals of several machines repeat GPU numbers. */
function nameAmong(gpus: readonly Gpu[], { machineId, gpuIndex }: Gpu): string {
  const isAlone = gpus.every((gpu) => gpu.machineId === machineId)
  return isAlone ? `GPU ${gpuIndex}` : `${machineId} GPU ${gpuIndex}`
}

/** Every sample seen while the page was open, once. */
function useSamples(metrics: Metrics | undefined): readonly Sample[] {
  const [samples, setSamples] = useState<readonly Sample[]>([])
  const gpus = metrics?.gpus ?? []
  const atS = Math.max(...gpus.map(({ at }) => Date.parse(at))) / 1_000
  const lastS = samples.at(-1)?.atS ?? 0
  if (gpus.length > 0 && atS > lastS) setSamples([...samples, { atS, gpus }].slice(-MAX_SAMPLES))
  return samples
}
