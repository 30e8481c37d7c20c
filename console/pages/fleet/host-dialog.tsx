/** Details of a host: state, notes, metrics and actions. */
import { gpuLabel, gpusLabel } from '../../../src/view/gpu.ts'
import { hostStateLabels } from '../../../src/view/host.ts'
import { offeringLabels } from '../../../src/view/supply.ts'
import { localTime, relativeTime } from '../../../src/view/time.ts'
import { LabelBadge } from '../../list/column.tsx'
import { Facts } from '../../ui/card.tsx'
import { Dialog, DialogButtons } from '../../ui/dialog.tsx'
import { useNow } from '../../ui/now.ts'
import { HostMetrics, HostNotes } from '../supply/metrics.tsx'
import { HostActions, type HostAction } from './host-action.tsx'
import type { FleetHost } from './read.tsx'

interface HostDialogProps {
  readonly host: FleetHost
  readonly onAct: (action: HostAction) => void
  readonly onClose: () => void
}

export function HostDialog({ host, onAct, onClose }: HostDialogProps) {
  const now = useNow()
  const { address } = host
  return (
    <Dialog title={host.id} onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        <Facts
          facts={[
            ['State', <LabelBadge key="state" of={hostStateLabels[host.state]} />],
            ['Reason', host.stateReason],
            ['Fault', host.fault?.message],
            ['Last seen', host.seenAt === null ? 'never' : relativeTime(host.seenAt, now)],
            ['Joined', localTime(host.joinedAt)],
            ['Offered as', `${offeringLabels[host.offering]} in ${host.region}, cluster ${host.clusterName}`],
            ['GPUs', `${gpusLabel(host.gpusTotal, gpuLabel(host.gpuModel))}${host.simulated ? ' (simulated)' : ''}`],
            ['Faulty GPUs', host.gpusSick.length > 0 && host.gpusSick.join(', ')],
            ['Tenants', host.tenants],
            ['Address', address && `${address.publicIp} (private ${address.privateIp})`],
          ]}
        />
        <HostNotes host={host} />
        <HostMetrics host={host} />
        <DialogButtons>
          <HostActions host={host} onAct={onAct} />
        </DialogButtons>
      </div>
    </Dialog>
  )
}
