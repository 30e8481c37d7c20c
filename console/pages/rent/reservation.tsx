/** A request to the operator for more machines than the page offers. */
import { formatInstant, parseInstant } from '../../../src/base/instant.ts'
import { gpuType } from '../../../src/contract/shared.ts'
import { count } from '../../../src/view/number.ts'
import { useMe } from '../../api/me.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { optionalNumber, optionalText } from '../../form/read.ts'
import { useCallForm } from '../../form/use-form.ts'
import { SelectField, TextArea, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'

export function ReservationDialog({ onClose }: { onClose: () => void }) {
  const { email } = useMe()
  const form = useCallForm('requestReservation', {
    refreshes: [],
    initial: { gpuCount: '64', gpuType: '', from: '', until: '', contact: email, note: '' },
    body: ({ gpuCount, gpuType: type, from, until, contact, note }) => ({
      gpuCount: optionalNumber(gpuCount),
      gpuType: gpuType.options.find((one) => one === type),
      from: timeOf(from),
      until: timeOf(until),
      contact: optionalText(contact),
      note: optionalText(note),
    }),
    check: ({ from, until }) => ({
      until: from !== '' && until !== '' && until <= from ? 'Must be after the start' : undefined,
    }),
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
      <div className="grid grid-cols-2 items-start gap-3">
        <TextField label="GPUs" inputMode="numeric" {...form.text('gpuCount')} />
        <SelectField
          label="Model"
          choices={[
            { value: '', label: 'Any' },
            ...gpuType.options.map((value) => ({ value, label: value.toUpperCase() })),
          ]}
          {...form.text('gpuType')}
        />
        <TextField label="From" type="date" {...form.text('from')} />
        <TextField label="Until" type="date" {...form.text('until')} />
      </div>
      <TextField label="Contact" maxLength={255} hint="E-mail address or phone number." {...form.text('contact')} />
      <TextArea label="Note" rows={2} placeholder="What it is for" {...form.text('note')} />
    </FormDialog>
  )
}

/** Midnight UTC of a typed day. */
function timeOf(day: string): string | undefined {
  const at = day === '' ? undefined : parseInstant(`${day}T00:00:00Z`)
  return at === undefined ? undefined : formatInstant(at)
}
