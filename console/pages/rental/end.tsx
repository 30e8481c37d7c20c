/** Terminating a machine, after a confirmation. */
import type { ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import type { RentalState } from '../../../src/contract/rental-state.ts'
import { endNowText } from '../../../src/domain/commitment.ts'
import { mayMove } from '../../../src/domain/rental.ts'
import { displayName } from '../../../src/view/own-machine.ts'
import { localDate } from '../../../src/view/time.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Button } from '../../ui/button.tsx'

export function TerminateButton({ status, onClick }: { status: RentalState; onClick: () => void }) {
  const mayWrite = useMay('compute:write')
  const why = mayMove(status, 'Terminating')
    ? mayWrite
      ? undefined
      : missingScope('compute:write')
    : status === 'Terminating'
      ? 'The machine is already terminating'
      : 'The machine has ended'
  return (
    <Button look="danger" disabledReason={why} onClick={onClick}>
      Terminate
    </Button>
  )
}

interface TerminateDialogProps {
  readonly rental: Reply<'getRental'>
  readonly cost: ReactNode
  readonly onClose: () => void
}

export function TerminateDialog({ rental, cost, onClose }: TerminateDialogProps) {
  const { commitment } = rental
  const name = displayName(rental)
  return (
    <ConfirmCall
      title={`Terminate ${name}?`}
      action="Terminate"
      operation="terminateRental"
      input={{ params: { id: String(rental.id) } }}
      refreshes={['listRentals', 'getRental', 'searchMachines', 'getCustomerBalance']}
      done={`Terminating ${name}; billing has stopped`}
      onClose={onClose}
    >
      <div className="flex flex-col gap-2">
        <p>Deletes the machine and all data on its disk. This cannot be undone.</p>
        <p>
          Cost so far: <span className="font-medium text-ink">{cost}</span>. Billing stops when you confirm.
        </p>
        {commitment !== null && commitment.endNow !== null && (
          <p className="text-warn">
            It is reserved until {localDate(commitment.endsAt)}. {endNowText(commitment.endNow)}
          </p>
        )}
      </div>
    </ConfirmCall>
  )
}
