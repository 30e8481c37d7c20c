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
  children,
}: FieldProps & { id: string; children: ReactNode }) {
  return (
    <div className={cx('flex flex-col gap-1', className)}>
      <label htmlFor={id} className={hideLabel === true ? 'sr-only' : 'text-sm font-medium'}>
        {label}
      </label>
      {children}
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
    </div>
  )
}

function described(id: string, { hint, error }: FieldProps): { 'aria-describedby'?: string; 'aria-invalid'?: true } {
  const ids = [error !== undefined && `${id}-error`, hint !== undefined && `${id}-hint`].filter(Boolean).join(' ')
  return {
    ...(ids === '' ? {} : { 'aria-describedby': ids }),
    ...(error === undefined ? {} : { 'aria-invalid': true }),
  }
}

function split<T extends FieldProps>(props: T): { field: FieldProps; rest: Omit<T, keyof FieldProps> } {
  const { label, hint, error, hideLabel, className, ...rest } = props
  const field = {
    label,
    hint,
    error,
    ...(hideLabel === undefined ? {} : { hideLabel }),
    ...(className === undefined ? {} : { className }),
  }
  return { field, rest }
}

export function TextField(props: FieldProps & Omit<InputHTMLAttributes<HTMLInputElement>, 'className'>) {
  const id = useId()
  const { field, rest } = split(props)
  return (
    <Frame id={id} {...field}>
      <input id={id} type="text" autoComplete="off" {...rest} {...described(id, field)} className={control} />
    </Frame>
  )
}

export function TextArea(props: FieldProps & Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, 'className'>) {
  const id = useId()
  const { field, rest } = split(props)
  return (
    <Frame id={id} {...field}>
      <textarea id={id} rows={3} {...rest} {...described(id, field)} className={control} />
    </Frame>
  )
}

export interface Choice {
  readonly value: string
  readonly label: string
  readonly disabled?: boolean
}

interface SelectProps extends FieldProps, Omit<SelectHTMLAttributes<HTMLSelectElement>, 'className'> {
  readonly choices: readonly Choice[]
}

export function SelectField(props: SelectProps) {
  const id = useId()
  const { field, rest } = split(props)
  const { choices, ...select } = rest
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

export function CheckField({
  label,
  hint,
  ...rest
}: { label: string; hint?: string } & InputHTMLAttributes<HTMLInputElement>) {
  const id = useId()
  return (
    <div className="flex items-start gap-2">
      <input
        id={id}
        type="checkbox"
        {...rest}
        className="mt-1 size-4 shrink-0 accent-accent"
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
      />
      <div>
        <label htmlFor={id} className="text-sm font-medium">
          {label}
        </label>
        {hint !== undefined && (
          <p id={`${id}-hint`} className="text-sm text-muted">
            {hint}
          </p>
        )}
      </div>
    </div>
  )
}
