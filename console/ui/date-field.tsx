/** A date and time in the browser's time zone, with common choices beside it. */
import type { ReactNode } from 'react'
import { addMs, DAY_MS, HOUR_MS, systemClock, toDate } from '../../src/base/instant.ts'
import { Button } from './button.tsx'
import { TextField } from './field.tsx'

interface DateFieldProps {
  readonly label: string
  readonly hint?: ReactNode
  readonly error?: string | undefined
  /** Choices in days from now. */
  readonly days?: readonly number[]
  /** `2026-11-15T12:00`; empty: none. */
  readonly value: string
  readonly onChange: (event: { readonly target: { readonly value: string } }) => void
}

const presets = [
  { label: '8 h', name: 'In 8 hours', ms: 8 * HOUR_MS },
  { label: '24 h', name: 'In 24 hours', ms: DAY_MS },
  { label: '7 d', name: 'In 7 days', ms: 7 * DAY_MS },
]

function inDays(days: number) {
  return { label: `${days} d`, name: `In ${days} days`, ms: days * DAY_MS }
}

export function DateField({ value, onChange, days, ...field }: DateFieldProps) {
  const set = (text: string): void => onChange({ target: { value: text } })
  return (
    <div className="flex flex-col gap-1.5">
      <TextField type="datetime-local" value={value} onChange={onChange} {...field} />
      <div className="flex flex-wrap gap-1">
        {(days?.map(inDays) ?? presets).map(({ label, name, ms }) => (
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

/** The field takes local times, to the minute. */
function textOf(at: Date): string {
  const two = (n: number): string => String(n).padStart(2, '0')
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}`
}
