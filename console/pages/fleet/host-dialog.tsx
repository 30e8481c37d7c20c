/** One host, as it is now: facts, what it says about itself, what it measures, and what can be done with it. */
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
            ...(host.stateReason === null ? [] : [['Why', host.stateReason] as const]),
            ...(host.fault === null ? [] : [['Fault', host.fault.message] as const]),
            ['Last heard', host.seenAt === null ? 'never' : relativeTime(host.seenAt, now)],
            ['Joined', localTime(host.joinedAt)],
            ['Offered as', `${host.offering} in ${host.region}, cluster ${host.clusterName}`],
            ['GPUs', `${host.gpusTotal} × ${host.gpuModel}${host.simulated ? ' (simulated)' : ''}`],
            ...(host.gpusSick.length === 0 ? [] : [['Sick GPUs', host.gpusSick.join(', ')] as const]),
            ['Tenants', host.tenants],
            ...(host.address === null
              ? []
              : [['Address', `${host.address.publicIp}, inside ${host.address.privateIp}`] as const]),
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
          <p className="text-sm text-muted">Nothing was measured yet.</p>
        ) : (
          <div>
            <h3 className="mb-2 text-sm font-semibold">
              Measured {relativeTime(metrics.at, now)}: CPU {tell(metrics.cpuPercent, '%')}, memory{' '}
              {tell(metrics.memoryUsedGb, 'GB')} used, disk {tell(metrics.diskFreeGb, 'GB')} free
            </h3>
            <Table
              label={`GPUs of ${host.id}`}
              columns={gpuColumns}
              rows={metrics.gpus}
              rowKey={(gpu) => gpu.index}
              empty={<p className="text-sm text-muted">Its GPUs say nothing about themselves.</p>}
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
  { name: 'busy', header: 'Busy', align: 'right', cell: (gpu) => tell(gpu.utilizationPercent, '%') },
  { name: 'memory', header: 'Memory', align: 'right', cell: (gpu) => tell(gpu.memoryUsedMib, 'MiB') },
  { name: 'power', header: 'Power', align: 'right', cell: (gpu) => tell(gpu.powerWatts, 'W') },
  { name: 'heat', header: 'Temperature', align: 'right', cell: (gpu) => tell(gpu.temperatureCelsius, '°C') },
]

function tell(value: number | null, unit: string): string {
  return value === null ? '—' : `${Math.round(value).toLocaleString('en')} ${unit}`
}
