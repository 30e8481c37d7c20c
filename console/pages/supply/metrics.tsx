/** The latest metrics of a host, and notes of its agent, for its supplier and for the operator. */
import type { Reply } from '../../../src/client/client.ts'
import { gigabytesOf, number } from '../../../src/view/number.ts'
import { relativeTime } from '../../../src/view/time.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { useNow } from '../../ui/now.ts'
import { Table } from '../../ui/table.tsx'

type Host = Pick<Reply<'listSuppliedHosts'>['hosts'][number], 'id' | 'metrics' | 'notes'>
type Gpu = NonNullable<Host['metrics']>['gpus'][number]

const gpuColumns: Columns<Gpu> = [
  textColumn('GPU', 'index'),
  textColumn('Utilization', (gpu) => measured(gpu.utilizationPercent, '%'), { align: 'right' }),
  textColumn('Memory', (gpu) => `${measured(gpu.memoryUsedMib, '')} of ${measured(gpu.memoryTotalMib, 'MiB')}`, {
    align: 'right',
  }),
  textColumn('Power', (gpu) => measured(gpu.powerWatts, 'W'), { align: 'right' }),
  textColumn('Temperature', (gpu) => measured(gpu.temperatureCelsius, '°C'), { align: 'right' }),
]

export function HostMetrics({ host: { id, metrics } }: { host: Host }) {
  const now = useNow()
  if (metrics === null) {
    return <p className="text-sm text-muted">No metrics yet. The agent sends them every few seconds.</p>
  }
  return (
    <section className="flex flex-col gap-2">
      <h3 className="text-sm font-semibold">Metrics from {relativeTime(metrics.at, now)}</h3>
      <p className="text-sm text-muted">
        CPU {measured(metrics.cpuPercent, '%')} · memory {measured(metrics.memoryUsedGb, 'GB')} used · disk{' '}
        {measured(metrics.diskFreeGb, 'GB')} free
        {metrics.weights === undefined
          ? ''
          : ` · model weights ${gigabytesOf(metrics.weights.usedGb, metrics.weights.budgetGb)}`}
      </p>
      <Table label={`GPUs of ${id}`} columns={gpuColumns} rows={metrics.gpus} rowKey="index" empty="No GPU metrics." />
    </section>
  )
}

export function HostNotes({ host: { notes } }: { host: Host }) {
  if (notes.length === 0) return null
  return (
    <section>
      <h3 className="mb-1 text-sm font-semibold">Notes of the agent</h3>
      <ul className="flex list-disc flex-col gap-1 pl-5 text-sm text-muted">
        {notes.map((note) => (
          <li key={note}>{note}</li>
        ))}
      </ul>
    </section>
  )
}

function measured(value: number | null, unit: string): string {
  if (value === null) return '—'
  return `${number(Math.round(value * 10) / 10)}${unit === '%' || unit === '' ? unit : ` ${unit}`}`
}
