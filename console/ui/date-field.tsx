/** A date and time in the browser's time zone, with common choices beside it. */
import { addMs, DAY_MS, HOUR_MS, systemClock, toDate } from '../../src/base/instant.ts'
import { Button } from './button.tsx'
import { TextField } from './field.tsx'

interface DateFieldProps {
  readonly label: string
  readonly hint?: string
  readonly error?: string | undefined
  /** `2026-11-15T12:00`; empty: none. */
  readonly value: string
  readonly onChange: (event: { readonly target: { readonly value: string } }) => void
}

const choices = [
  { label: '8 h', name: 'In 8 hours', ms: 8 * HOUR_MS },
  { label: '24 h', name: 'In 24 hours', ms: DAY_MS },
  { label: '7 d', name: 'In 7 days', ms: 7 * DAY_MS },
] as const

export function DateField({ value, onChange, ...field }: DateFieldProps) {
  const set = (text: string): void => onChange({ target: { value: text } })
  return (
    <div className="flex flex-col gap-1.5">
      <TextField type="datetime-local" value={value} onChange={onChange} {...field} />
      <div className="flex flex-wrap gap-1">
        {choices.map(({ label, name, ms }) => (
          <Button
            key={label}
            title={name}
            className="min-h-7 px-2 py-0 text-xs"
            onClick={() => set(textOf(toDate(addMs(systemClock.now(), ms))))}
          >
            <span className="sr-only">{field.label}: in </span>
            {label}
          </Button>
        ))}
        {value !== '' && (
          <Button look="quiet" className="min-h-7 px-2 py-0 text-xs" onClick={() => set('')}>
            Clear<span className="sr-only"> {field.label}</span>
          </Button>
        )}
      </div>
    </div>
  )
}

/** As the field has it: local, to the minute. */
function textOf(at: Date): string {
  const two = (n: number): string => String(n).padStart(2, '0')
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`
}
