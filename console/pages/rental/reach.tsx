/** How to connect: SSH and exposed ports. */
import { Card } from '../../ui/card.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import type { PortRecord } from '../../../src/contract/port.ts'
import { rentalStateTable, type RentalState } from '../../../src/contract/rental-state.ts'
import { isComingUp, isReachable, keepsDisk } from '../../../src/domain/rental.ts'
import { sshCommand, type Ssh } from '../../../src/view/own-machine.ts'
import { RentalPorts } from './ports.tsx'

interface ReachProps {
  readonly id: string
  readonly name: string
  readonly status: RentalState
  readonly ssh: Ssh | undefined
  readonly ports: readonly PortRecord[]
}

export function RentalReach({ id, name, status, ssh, ports }: ReachProps) {
  return (
    <Card title="Connect" className="lg:col-span-2">
      {ssh === undefined ? (
        <p className="text-sm text-muted">{whyNot(status)}</p>
      ) : (
        <div className="grid grid-cols-1 gap-3 lg:grid-cols-[2fr_1fr]">
          <CopyLine label="SSH command" text={sshCommand(name, ssh)} />
          <CopyLine label="Berth command line" text={`berth ssh ${name}`} />
          <p className="text-sm text-muted lg:col-span-2">
            Uses the SSH keys your account had when you placed the order.
          </p>
        </div>
      )}
      <RentalPorts id={id} ports={ports} />
    </Card>
  )
}

function whyNot(status: RentalState): string {
  const { goal, meaning } = rentalStateTable[status]
  if (isReachable(status)) return 'This machine has no SSH access.'
  if (goal === 'gone') return 'The machine has ended.'
  if (isComingUp(status)) return 'The SSH command appears here when the machine is running.'
  return keepsDisk(status) ? `${meaning} Its addresses are the same when it runs again.` : meaning
}
