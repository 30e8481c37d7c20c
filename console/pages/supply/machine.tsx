/** Details of one machine: state, GPU metrics, notes of its agent, and actions. */
import { count, number } from '../../../src/view/number.ts'
import { localTime, relativeTime } from '../../../src/view/time.ts'
import { gpuLabel } from '../../../src/view/gpu.ts'
import { offeringLabels, standingOf, type Host, type Supplied } from '../../../src/view/supply.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Facts } from '../../ui/card.tsx'
import { Dialog, DialogButtons } from '../../ui/dialog.tsx'
import { useNow } from '../../ui/now.ts'
import { Table, type Column } from '../../ui/table.tsx'
import { whyNoMove, type Move } from './move.tsx'

interface MachineDialogProps {
  readonly one: Supplied
  readonly onMove: (move: Move) => void
  readonly onClose: () => void
}

export function MachineDialog({ one, onMove, onClose }: MachineDialogProps) {
  const now = useNow()
  const { id, host, machine, of } = one
  const standing = standingOf(one, now)
  const moves = [
    host?.state === 'draining'
      ? ({ move: 'resume', label: 'Resume' } as const)
      : ({ move: 'drain', label: 'Drain' } as const),
    { move: 'leave', label: 'Remove' } as const,
  ]
  return (
    <Dialog title={id} wide onClose={onClose}>
      <div className="flex flex-col gap-4">
        <p className="flex flex-wrap items-center gap-2 text-sm">
          <Badge tone={standing.tone}>{standing.label}</Badge>
          {standing.hint}
        </p>
        <Facts
          facts={[
            ['Offers', `${offeringLabels[of.offering]} in ${of.region}, cluster ${of.clusterName}`],
            ['GPUs', `${of.gpusTotal} × ${gpuLabel(of.gpuModel)}${host?.simulated === true ? ', simulated' : ''}`],
            ['Rented', machine === undefined ? 'Not listed yet' : count(machine.gpusInUse, 'GPU')],
            ['Faulty GPUs', of.gpusSick.length === 0 ? 'None' : `${of.gpusSick.join(', ')} (withdrawn from sale)`],
            ...(host === undefined
              ? []
              : ([
                  ['Joined', localTime(host.joinedAt)],
                  ['Last seen', host.seenAt === null ? 'Never' : relativeTime(host.seenAt, now)],
                ] as const)),
          ]}
        />
        {host !== undefined && <Measurements host={host} />}
        {host !== undefined && host.notes.length > 0 && (
          <section>
            <h3 className="mb-1 text-sm font-semibold">Notes of the agent</h3>
            <ul className="flex list-disc flex-col gap-1 pl-5 text-sm text-muted">
              {host.notes.map((note) => (
                <li key={note}>{note}</li>
              ))}
            </ul>
          </section>
        )}
      </div>
      <DialogButtons>
        {host !== undefined &&
          moves.map(({ move, label }) => {
            const why = whyNoMove(one, move)
            return (
              <Button key={move} disabledReason={why} onClick={() => onMove(move)}>
                {label}
              </Button>
            )
          })}
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </DialogButtons>
    </Dialog>
  )
}

type GpuReading = NonNullable<Host['metrics']>['gpus'][number]

const gpuColumns: ReadonlyArray<Column<GpuReading>> = [
  { name: 'gpu', header: 'GPU', cell: (gpu) => gpu.index },
  { name: 'use', header: 'Utilization', align: 'right', cell: (gpu) => measured(gpu.utilizationPercent, '%') },
  {
    name: 'memory',
    header: 'Memory',
    align: 'right',
    cell: (gpu) => `${measured(gpu.memoryUsedMib, '')} of ${measured(gpu.memoryTotalMib, 'MiB')}`,
  },
  { name: 'power', header: 'Power', align: 'right', cell: (gpu) => measured(gpu.powerWatts, 'W') },
  { name: 'heat', header: 'Temperature', align: 'right', cell: (gpu) => measured(gpu.temperatureCelsius, '°C') },
]

function Measurements({ host }: { host: Host }) {
  const now = useNow()
  const { metrics } = host
  if (metrics === null) {
    return <p className="text-sm text-muted">No metrics yet. The agent sends them every few seconds.</p>
  }
  return (
    <section className="flex flex-col gap-2">
      <h3 className="text-sm font-semibold">Metrics from {relativeTime(metrics.at, now)}</h3>
      <p className="text-sm text-muted">
        CPU {measured(metrics.cpuPercent, '%')} · memory {measured(metrics.memoryUsedGb, 'GB')} used · disk{' '}
        {measured(metrics.diskFreeGb, 'GB')} free
      </p>
      <Table
        label={`GPUs of ${host.id}`}
        columns={gpuColumns}
        rows={metrics.gpus}
        rowKey={(gpu) => gpu.index}
        empty={<p className="text-sm text-muted">No GPU metrics.</p>}
      />
    </section>
  )
}

function measured(value: number | null, unit: string): string {
  if (value === null) return '—'
  return `${number(Math.round(value * 10) / 10)}${unit === '%' || unit === '' ? unit : ` ${unit}`}`
}
