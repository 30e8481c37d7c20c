/** How to connect: SSH and exposed ports. */
import { Card } from '../../ui/card.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import type { RentalStatus } from '../../../src/contract/rental.ts'
import { sshCommand, type Ssh } from '../../../src/view/own-machine.ts'

interface Port {
  /** Inside the machine. */
  readonly port: number
  readonly host: string
  readonly publicPort: number
}

interface ReachProps {
  readonly name: string
  readonly status: RentalStatus
  readonly ssh: Ssh | undefined
  readonly ports: readonly Port[]
}

export function RentalReach({ name, status, ssh, ports }: ReachProps) {
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
      {ports.length > 0 && (
        <div className="mt-4">
          <h3 className="text-sm font-semibold">Ports</h3>
          <ul className="mt-1 flex flex-col gap-1 font-mono text-sm">
            {ports.map(({ port, host, publicPort }) => (
              <li key={publicPort}>
                <span className="text-muted">{port} → </span>
                {host}:{publicPort}
              </li>
            ))}
          </ul>
        </div>
      )}
    </Card>
  )
}

function whyNot(status: RentalStatus): string {
  if (status === 'Pending') return 'The SSH command appears here when the machine is running.'
  if (status === 'Running') return 'This machine has no SSH access.'
  if (status === 'Unknown') return 'The machine is unreachable at the moment.'
  return 'The machine has ended.'
}
