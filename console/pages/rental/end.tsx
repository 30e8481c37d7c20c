/** Terminating a machine, with a confirmation. */
import type { ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import type { RentalState } from '../../../src/contract/rental-state.ts'
import { endNowText } from '../../../src/domain/commitment.ts'
import { mayMove } from '../../../src/domain/rental.ts'
import { localDate } from '../../../src/view/time.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { Button } from '../../ui/button.tsx'
import { ConfirmDialog } from '../../ui/dialog.tsx'
import { toast } from '../../ui/toast.tsx'

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
  readonly name: string
  readonly cost: ReactNode
  /** Its reserved term, if any. */
  readonly commitment: Reply<'getRental'>['commitment']
  readonly busy: boolean
  readonly error: ClientError | null
  /** Calls `done` when the machine is terminating. */
  readonly onConfirm: (done: () => void) => void
  readonly onClose: () => void
}

export function TerminateDialog({ name, cost, commitment, onConfirm, onClose, ...rest }: TerminateDialogProps) {
  const confirm = (): void =>
    onConfirm(() => {
      toast(`Terminating ${name}; billing has stopped`)
      onClose()
    })
  return (
    <ConfirmDialog title={`Terminate ${name}?`} action="Terminate" onConfirm={confirm} onClose={onClose} {...rest}>
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
    </ConfirmDialog>
  )
}
