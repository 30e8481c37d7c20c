/** The end of a machine, asked for once more: what it has cost, and that its data goes. */
import type { ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import type { RentalStatus } from '../../../src/contract/rental.ts'
import { endNowWords } from '../../../src/domain/commitment.ts'
import { mayMove } from '../../../src/domain/rental.ts'
import { localDate } from '../../../src/view/time.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { Button } from '../../ui/button.tsx'
import { ConfirmDialog } from '../../ui/dialog.tsx'
import { toast } from '../../ui/toast.tsx'

export function TerminateButton({ status, onClick }: { status: RentalStatus; onClick: () => void }) {
  const mayWrite = useMay('compute:write')
  const why = mayMove(status, 'Terminating')
    ? mayWrite
      ? undefined
      : missingScope('compute:write')
    : status === 'Terminating'
      ? 'It is ending already'
      : 'It has ended'
  return (
    <Button look="danger" disabledReason={why} onClick={onClick}>
      Terminate
    </Button>
  )
}

interface TerminateDialogProps {
  readonly name: string
  readonly cost: ReactNode
  /** The reserved term that it is in. */
  readonly commitment: Reply<'getRental'>['commitment']
  readonly busy: boolean
  readonly error: ClientError | null
  /** Ends it, and says so by calling `done`. */
  readonly onConfirm: (done: () => void) => void
  readonly onClose: () => void
}

export function TerminateDialog({ name, cost, commitment, onConfirm, onClose, ...rest }: TerminateDialogProps) {
  const confirm = (): void =>
    onConfirm(() => {
      toast(`${name} ends; its bill has stopped`)
      onClose()
    })
  return (
    <ConfirmDialog title={`Terminate ${name}?`} action="Terminate" onConfirm={confirm} onClose={onClose} {...rest}>
      <div className="flex flex-col gap-2">
        <p>The machine goes, and everything on its disk with it. This cannot be undone.</p>
        <p>
          It has cost <span className="font-medium text-ink">{cost}</span>. The bill stops when you confirm.
        </p>
        {commitment !== null && commitment.endNow !== null && (
          <p className="text-warn">
            It is reserved until {localDate(commitment.endsAt)}. {endNowWords(commitment.endNow)}
          </p>
        )}
      </div>
    </ConfirmDialog>
  )
}
