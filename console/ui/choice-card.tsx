/** A choice of one among cards with any content. `RadioField` is for those of a label and a line. */
import { createContext, use, useId, type ReactNode } from 'react'
import { cx } from './class.ts'

interface Choice {
  readonly group: string
  readonly value: string | undefined
  readonly onChange: (value: string) => void
}

const ChoiceContext = createContext<Choice | undefined>(undefined)

interface ChoiceCardsProps extends Omit<Choice, 'group' | 'value'> {
  readonly label: string
  /** undefined: none is chosen. */
  readonly value: string | undefined
  readonly error?: string | undefined
  readonly children: ReactNode
}

export function ChoiceCards({ label, value, onChange, error, children }: ChoiceCardsProps) {
  const id = useId()
  return (
    <fieldset aria-describedby={error === undefined ? undefined : `${id}-error`} className="min-w-0">
      <legend className="sr-only">{label}</legend>
      <ChoiceContext value={{ group: id, value, onChange }}>
        <div className="grid grid-cols-1 gap-2 min-[26rem]:grid-cols-2 md:grid-cols-[repeat(auto-fill,minmax(13rem,1fr))]">
          {children}
        </div>
      </ChoiceContext>
      {error !== undefined && (
        <p id={`${id}-error`} className="mt-2 text-sm text-bad">
          {error}
        </p>
      )}
    </fieldset>
  )
}

interface ChoiceCardProps {
  readonly value: string
  readonly title: string
  /** At the end of the title's line. */
  readonly aside?: ReactNode
  readonly disabled?: boolean
  readonly children?: ReactNode
}

export function ChoiceCard({ value, title, aside, disabled = false, children }: ChoiceCardProps) {
  const choice = use(ChoiceContext)
  if (choice === undefined) throw new Error('a ChoiceCard is outside of ChoiceCards')
  const isChosen = choice.value === value
  return (
    <label
      className={cx(
        'flex min-w-0 items-start gap-2.5 rounded-lg border px-3 py-2.5 text-sm',
        'has-focus-visible:outline-2 has-focus-visible:outline-offset-2 has-focus-visible:outline-accent',
        isChosen ? 'border-accent bg-accent-soft' : 'border-line bg-surface',
        disabled ? 'cursor-not-allowed border-dashed' : 'cursor-pointer hover:border-line-strong',
      )}
    >
      <input
        type="radio"
        name={choice.group}
        value={value}
        checked={isChosen}
        disabled={disabled}
        onChange={() => choice.onChange(value)}
        className="mt-0.5 size-4 shrink-0 accent-accent outline-none"
      />
      <span className="flex min-w-0 flex-1 flex-col gap-0.5">
        <span className="flex items-baseline justify-between gap-2">
          <span className={cx('min-w-0 font-medium break-words', disabled && 'text-muted')}>{title}</span>
          {aside}
        </span>
        {children}
      </span>
    </label>
  )
}
