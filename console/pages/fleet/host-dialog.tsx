/** Details of a host: state, notes, metrics and actions. */
import { gpuLabel, gpusLabel } from '../../../src/view/gpu.ts'
import { number } from '../../../src/view/number.ts'
import { offeringLabels } from '../../../src/view/supply.ts'
import { localTime, relativeTime } from '../../../src/view/time.ts'
import { Facts } from '../../ui/card.tsx'
import { Dialog, DialogButtons } from '../../ui/dialog.tsx'
import { useNow } from '../../ui/now.ts'
import { Table, type Column } from '../../ui/table.tsx'
import { HostActions, type HostAction } from './host-action.tsx'
import { HostBadge } from './host-badge.tsx'
import type { FleetHost } from './read.ts'

interface HostDialogProps {
  readonly host: FleetHost
  readonly onAct: (action: HostAction) => void
  readonly onClose: () => void
}

export function HostDialog({ host, onAct, onClose }: HostDialogProps) {
  const now = useNow()
  const { metrics } = host
  return (
    <Dialog title={host.id} onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        <Facts
          facts={[
            ['State', <HostBadge key="state" state={host.state} />],
            ...(host.stateReason === null ? [] : [['Reason', host.stateReason] as const]),
            ...(host.fault === null ? [] : [['Fault', host.fault.message] as const]),
            ['Last seen', host.seenAt === null ? 'never' : relativeTime(host.seenAt, now)],
            ['Joined', localTime(host.joinedAt)],
            ['Offered as', `${offeringLabels[host.offering]} in ${host.region}, cluster ${host.clusterName}`],
            ['GPUs', `${gpusLabel(host.gpusTotal, gpuLabel(host.gpuModel))}${host.simulated ? ' (simulated)' : ''}`],
            ...(host.gpusSick.length === 0 ? [] : [['Faulty GPUs', host.gpusSick.join(', ')] as const]),
            ['Tenants', host.tenants],
            ...(host.address === null
              ? []
              : [['Address', `${host.address.publicIp} (private ${host.address.privateIp})`] as const]),
          ]}
        />
        {host.notes.length > 0 && (
          <ul className="list-disc pl-5 text-sm text-muted">
            {host.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        )}
        {metrics === null ? (
          <p className="text-sm text-muted">No metrics yet.</p>
        ) : (
          <div>
            <h3 className="mb-2 text-sm font-semibold">
              Metrics from {relativeTime(metrics.at, now)}: CPU {measured(metrics.cpuPercent, '%')}, memory{' '}
              {measured(metrics.memoryUsedGb, 'GB')} used, disk {measured(metrics.diskFreeGb, 'GB')} free
            </h3>
            <Table
              label={`GPUs of ${host.id}`}
              columns={gpuColumns}
              rows={metrics.gpus}
              rowKey={(gpu) => gpu.index}
              empty={<p className="text-sm text-muted">No GPU metrics.</p>}
            />
          </div>
        )}
        <DialogButtons>
          <HostActions host={host} onAct={onAct} />
        </DialogButtons>
      </div>
    </Dialog>
  )
}

type Gpu = NonNullable<FleetHost['metrics']>['gpus'][number]

const gpuColumns: ReadonlyArray<Column<Gpu>> = [
  { name: 'index', header: 'GPU', cell: (gpu) => gpu.index },
  { name: 'busy', header: 'Utilization', align: 'right', cell: (gpu) => measured(gpu.utilizationPercent, '%') },
  { name: 'memory', header: 'Memory', align: 'right', cell: (gpu) => measured(gpu.memoryUsedMib, 'MiB') },
  { name: 'power', header: 'Power', align: 'right', cell: (gpu) => measured(gpu.powerWatts, 'W') },
  { name: 'heat', header: 'Temperature', align: 'right', cell: (gpu) => measured(gpu.temperatureCelsius, '°C') },
]

function measured(value: number | null, unit: string): string {
  return value === null ? '—' : `${number(Math.round(value))}${unit === '%' ? unit : ` ${unit}`}`
}
