/** A choice as cards, with disabled ones visible. More than a few become a select: 32 cards would fill a screen. */
import { useId } from 'react'
import { cx } from './class.ts'
import { SelectField } from './field.tsx'
import type { RadioChoice } from './radio-choice.ts'

interface RadioFieldProps {
  readonly label: string
  readonly choices: readonly RadioChoice[]
  readonly value: string
  readonly onChange: (value: string) => void
  readonly error?: string | undefined
}

const MAX_CARDS = 8

export function RadioField(props: RadioFieldProps) {
  const { label, choices, value, onChange, error } = props
  if (choices.length <= MAX_CARDS) return <RadioCards {...props} />
  return (
    <SelectField
      label={label}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      choices={choices.map((choice) => ({ ...choice, label: oneLine(choice) }))}
      error={error}
    />
  )
}

function oneLine({ label, detail }: RadioChoice): string {
  return detail === undefined ? label : `${label}: ${detail.replaceAll('\n', ', ')}`
}

function RadioCards({ label, choices, value, onChange, error }: RadioFieldProps) {
  const id = useId()
  return (
    <fieldset aria-describedby={error === undefined ? undefined : `${id}-error`} className="min-w-0">
      <legend className="mb-1 text-sm font-medium">{label}</legend>
      <div className="grid grid-cols-2 gap-2 sm:grid-cols-[repeat(auto-fill,minmax(9.5rem,1fr))]">
        {choices.map((choice) => (
          <label
            key={choice.value}
            className={cx(
              'flex min-w-0 cursor-pointer items-start gap-2 rounded-md border px-2.5 py-2 text-sm',
              'has-focus-visible:outline-2 has-focus-visible:outline-offset-2 has-focus-visible:outline-accent',
              choice.value === value ? 'border-accent bg-accent-soft' : 'border-line-strong bg-surface',
              choice.disabled === true && 'cursor-not-allowed border-dashed',
            )}
          >
            <input
              type="radio"
              name={id}
              value={choice.value}
              checked={choice.value === value}
              disabled={choice.disabled}
              onChange={() => onChange(choice.value)}
              className="mt-0.5 size-4 shrink-0 accent-accent outline-none"
            />
            <span className="min-w-0">
              <span className={cx('block font-medium break-words', choice.disabled === true && 'text-muted')}>
                {choice.label}
              </span>
              {choice.detail !== undefined && (
                <span className="block text-xs whitespace-pre-line text-muted">{choice.detail}</span>
              )}
            </span>
          </label>
        ))}
      </div>
      {error !== undefined && (
        <p id={`${id}-error`} className="mt-1 text-sm text-bad">
          {error}
        </p>
      )}
    </fieldset>
  )
}
