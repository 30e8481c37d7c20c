/** For more than the page sells: the operator is asked, and answers in person. */
import { useState, type FormEvent } from 'react'
import { count } from '../../../src/view/number.ts'
import { useAction } from '../../api/query.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'

const MAX_GPUS = 100_000

export function ReservationDialog({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('64')
  const [isTried, setTried] = useState(false)
  const ask = useAction('requestReservation')
  const gpuCount = /^\d{1,6}$/.test(text.trim()) ? Number.parseInt(text, 10) : 0
  const fault = gpuCount >= 1 && gpuCount <= MAX_GPUS ? undefined : 'A whole number of GPUs'
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    if (fault !== undefined) return
    ask.mutate(
      { body: { gpuCount } },
      {
        onSuccess: () => {
          toast(`The operator has been asked for ${count(gpuCount, 'GPU')}`)
          onClose()
        },
      },
    )
  }
  const said = errorBesideFields(ask.error, ['gpuCount'])
  return (
    <Dialog title="Ask for a large reservation" onClose={onClose}>
      <form onSubmit={submit} noValidate className="flex flex-col gap-3">
        <p className="text-sm text-muted">
          The operator is told how many GPUs you need and gets in touch with you. This orders nothing and costs nothing.
        </p>
        <TextField
          label="GPUs"
          inputMode="numeric"
          value={text}
          onChange={(event) => setText(event.target.value)}
          error={(isTried ? fault : undefined) ?? fieldError(ask.error, 'gpuCount')}
        />
        {said !== null && <ErrorNotice error={said} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={ask.isPending}>Ask the operator</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}
