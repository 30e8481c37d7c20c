/** Why an operator does something: asked for in the same words wherever it is. */
import { TextField } from './field.tsx'

const LEAST_CHARS = 3

interface ReasonFieldProps {
  readonly value: string
  readonly onChange: (reason: string) => void
  /** What is wrong with it, in a sentence. */
  readonly error: string | undefined
  /** The browser sends the form only with one. */
  readonly required?: boolean
}

export function ReasonField({ value, onChange, error, required = false }: ReasonFieldProps) {
  return (
    <TextField
      label="Reason"
      hint="Stands in the audit log."
      {...(required ? { required, minLength: LEAST_CHARS } : {})}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      error={error}
    />
  )
}
