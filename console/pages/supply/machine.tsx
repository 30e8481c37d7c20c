/** Details of one machine: state, GPU metrics, notes of its agent, and actions. */
import { count } from '../../../src/view/number.ts'
import { localTime, relativeTime } from '../../../src/view/time.ts'
import { gpuLabel } from '../../../src/view/gpu.ts'
import { offeringLabels, standingOf, type Supplied } from '../../../src/view/supply.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Facts } from '../../ui/card.tsx'
import { Dialog, DialogButtons } from '../../ui/dialog.tsx'
import { useNow } from '../../ui/now.ts'
import { HostMetrics, HostNotes } from './metrics.tsx'
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
  const moves = { ...(host?.state === 'draining' ? { resume: 'Resume' } : { drain: 'Drain' }), leave: 'Remove' }
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
            ['Joined', host && localTime(host.joinedAt)],
            ['Last seen', host && (host.seenAt === null ? 'Never' : relativeTime(host.seenAt, now))],
          ]}
        />
        {host !== undefined && <HostMetrics host={host} />}
        {host !== undefined && <HostNotes host={host} />}
      </div>
      <DialogButtons>
        {host !== undefined &&
          (Object.entries(moves) as Array<['drain' | 'resume' | 'leave', string]>).map(([move, label]) => (
            <Button key={move} disabledReason={whyNoMove(one, move)} onClick={() => onMove(move)}>
              {label}
            </Button>
          ))}
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </DialogButtons>
    </Dialog>
  )
}
