/** Form fields with label, hint and error, linked for screen readers. */
import {
  useId,
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
} from 'react'
import { cx } from './class.ts'

interface FieldProps {
  readonly label: string
  readonly hint?: ReactNode
  readonly error?: string | undefined
  /** The label is for screen readers only. */
  readonly hideLabel?: boolean
  readonly className?: string
  /** Marks the label. */
  readonly 'aria-required'?: true
}

const control =
  'w-full min-h-9 rounded-md border border-line-strong bg-surface px-2.5 py-1.5 text-sm text-ink disabled:opacity-55 aria-invalid:border-bad'

function Frame({
  id,
  label,
  hint,
  error,
  hideLabel,
  className,
  'aria-required': isRequired,
  children,
}: FieldProps & { id: string; children: ReactNode }) {
  // The slash keeps the mark out of the name that screen readers speak: they know `aria-required`.
  const mark = isRequired === true && "after:ml-0.5 after:text-muted after:content-['*'_/_'']"
  return (
    <div className={cx('flex min-w-0 flex-col gap-1', className)}>
      <label htmlFor={id} className={hideLabel === true ? 'sr-only' : cx('text-sm font-medium', mark)}>
        {label}
      </label>
      {children}
      <Notes id={id} hint={hint} error={error} />
    </div>
  )
}

function Notes({ id, hint, error }: { id: string; hint: ReactNode; error: string | undefined }) {
  return (
    <>
      {error !== undefined && (
        <p id={`${id}-error`} className="text-sm text-bad">
          {error}
        </p>
      )}
      {hint !== undefined && (
        <p id={`${id}-hint`} className="text-sm text-muted">
          {hint}
        </p>
      )}
    </>
  )
}

interface Described {
  readonly 'aria-describedby'?: string
  readonly 'aria-invalid'?: true
  readonly 'aria-required'?: true
}

function described(id: string, { hint, error, 'aria-required': isRequired }: FieldProps): Described {
  const ids = [error !== undefined && `${id}-error`, hint !== undefined && `${id}-hint`].filter(Boolean).join(' ')
  return {
    ...(ids === '' ? {} : { 'aria-describedby': ids }),
    ...(error === undefined ? {} : { 'aria-invalid': true }),
    ...(isRequired === undefined ? {} : { 'aria-required': isRequired }),
  }
}

function split<T extends FieldProps>(props: T): { field: FieldProps; attributes: Omit<T, keyof FieldProps> } {
  const { label, hint, error, hideLabel, className, 'aria-required': isRequired, ...rest } = props
  const field = {
    label,
    hint,
    error,
    ...(hideLabel === undefined ? {} : { hideLabel }),
    ...(className === undefined ? {} : { className }),
    ...(isRequired === undefined ? {} : { 'aria-required': isRequired }),
  }
  return { field, attributes: rest }
}

export function TextField(props: FieldProps & Omit<InputHTMLAttributes<HTMLInputElement>, keyof FieldProps>) {
  const id = useId()
  const { field, attributes } = split(props)
  return (
    <Frame id={id} {...field}>
      <input id={id} type="text" autoComplete="off" {...attributes} {...described(id, field)} className={control} />
    </Frame>
  )
}

export function TextArea(props: FieldProps & Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, keyof FieldProps>) {
  const id = useId()
  const { field, attributes } = split(props)
  return (
    <Frame id={id} {...field}>
      <textarea id={id} rows={3} {...attributes} {...described(id, field)} className={control} />
    </Frame>
  )
}

export interface Choice {
  readonly value: string
  readonly label: string
  readonly hint?: string
  readonly disabled?: boolean
}

interface SelectProps extends FieldProps, Omit<SelectHTMLAttributes<HTMLSelectElement>, keyof FieldProps> {
  readonly choices: readonly Choice[]
}

export function SelectField(props: SelectProps) {
  const id = useId()
  const { field, attributes } = split(props)
  const { choices, ...select } = attributes
  return (
    <Frame id={id} {...field}>
      <select id={id} {...select} {...described(id, field)} className={control}>
        {choices.map((choice) => (
          <option key={choice.value} value={choice.value} disabled={choice.disabled}>
            {choice.label}
          </option>
        ))}
      </select>
    </Frame>
  )
}

type CheckProps = Pick<FieldProps, 'label' | 'hint' | 'error'> & InputHTMLAttributes<HTMLInputElement>

export function CheckField({ label, hint, error, ...rest }: CheckProps) {
  const id = useId()
  return (
    <div className="flex items-start gap-2">
      <input
        id={id}
        type="checkbox"
        {...rest}
        {...described(id, { label, hint, error })}
        className="mt-1 size-4 shrink-0 accent-accent"
      />
      <div className="min-w-0">
        <label htmlFor={id} className="text-sm font-medium">
          {label}
        </label>
        <Notes id={id} hint={hint} error={error} />
      </div>
    </div>
  )
}

interface CheckListProps extends Pick<FieldProps, 'label' | 'hint' | 'error'> {
  readonly choices: readonly Choice[]
  readonly chosen: readonly string[]
  readonly onChange: (chosen: string[]) => void
}

/** Any number of choices, in their order. */
export function CheckList({ label, hint, error, choices, chosen, onChange }: CheckListProps) {
  const id = useId()
  const pick = (value: string, isIn: boolean): void =>
    onChange(choices.map((choice) => choice.value).filter((one) => (one === value ? isIn : chosen.includes(one))))
  return (
    <fieldset className="min-w-0 sm:col-span-full" {...described(id, { label, hint, error })}>
      <legend className="mb-2 text-sm font-medium">{label}</legend>
      <div className="grid gap-x-4 gap-y-3 sm:grid-cols-2">
        {choices.map(({ value, ...choice }) => (
          <CheckField
            key={value}
            {...choice}
            checked={chosen.includes(value)}
            onChange={(event) => pick(value, event.target.checked)}
          />
        ))}
      </div>
      <Notes id={id} hint={hint} error={error} />
    </fieldset>
  )
}
