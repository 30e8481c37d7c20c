/** Asks the operator for more than the page offers. */
import { count } from '../../../src/view/number.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { optionalNumber } from '../../form/read.ts'
import { useCallForm } from '../../form/use-form.ts'
import { TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'

export function ReservationDialog({ onClose }: { onClose: () => void }) {
  const form = useCallForm('requestReservation', {
    refreshes: [],
    initial: { gpuCount: '64' },
    body: ({ gpuCount }) => ({ gpuCount: optionalNumber(gpuCount) }),
    onDone: (_, { gpuCount }) => {
      toast(`Requested ${count(Number(gpuCount), 'GPU')} from the operator`)
      onClose()
    },
  })
  return (
    <FormDialog title="Request a large reservation" form={form} action="Send request" onClose={onClose}>
      <p className="text-sm text-muted">
        The operator will contact you about this request. It orders nothing and costs nothing.
      </p>
      <TextField label="GPUs" inputMode="numeric" {...form.text('gpuCount')} />
    </FormDialog>
  )
}
