/** Options of every order: a label, and limits against forgotten machines. */
import { formatInstant, parseInstant, systemClock } from '../../../src/base/instant.ts'
import type { Form } from '../../form/use-form.ts'
import { DateField } from '../../ui/date-field.tsx'
import { TextField } from '../../ui/field.tsx'

export const noGuards = {
  label: '',
  /** In the browser's time zone: `2026-11-15T12:00`. */
  endsAt: '',
  limitUsd: '',
}
type Guards = typeof noGuards

export function endOf({ endsAt }: Pick<Guards, 'endsAt'>): string | undefined {
  const at = endsAt === '' ? undefined : parseInstant(endsAt)
  return at === undefined ? undefined : formatInstant(at)
}

export function checkEnd({ endsAt }: Pick<Guards, 'endsAt'>): { readonly endsAt: string | undefined } {
  const at = parseInstant(endsAt)
  const isPast = endsAt !== '' && (at === undefined || at <= systemClock.now())
  return { endsAt: isPast ? 'Choose a time in the future' : undefined }
}

export function GuardFields({ form }: { form: Pick<Form<Guards>, 'text'> }) {
  return (
    <div className="grid gap-3 sm:grid-cols-3">
      <TextField label="Label" hint="A name for your reference." placeholder="training" {...form.text('label')} />
      <DateField label="Ends at" hint="Terminates automatically at this time." {...form.text('endsAt')} />
      <TextField
        label="Spending limit"
        hint="Terminates when its cost reaches this amount (USD)."
        placeholder="25.00"
        inputMode="decimal"
        {...form.text('limitUsd')}
      />
    </div>
  )
}
