/** The fields of a cloud's credentials. What they hold is sent once, and shown by nothing afterwards. */
import type { Reply } from '../../../src/client/client.ts'
import { ApiError, type ClientError } from '../../../src/client/error.ts'
import { labelOf } from '../../form/field.ts'
import { TextField } from '../../ui/field.tsx'

export type ProviderKind = Reply<'listProviders'>['kinds'][number]

interface CredentialFieldsProps {
  readonly kind: ProviderKind
  readonly values: Readonly<Record<string, string>>
  readonly error: ClientError | null
  readonly onChange: (values: Record<string, string>) => void
}

export function CredentialFields({ kind, values, error, onChange }: CredentialFieldsProps) {
  return kind.credentials.map(({ name, help, optional }) => (
    <TextField
      key={name}
      label={`${labelOf(name, { kind: 'text' }).replace(/^Api\b/, 'API')}${optional === true ? ' (optional)' : ''}`}
      hint={`${help}.`}
      error={faultAt(error, name)}
      // The browser's own passwords belong elsewhere.
      autoComplete={isSecret(name) ? 'new-password' : 'off'}
      type={isSecret(name) ? 'password' : 'text'}
      spellCheck={false}
      {...(optional === true ? {} : { 'aria-required': true as const })}
      value={values[name] ?? ''}
      onChange={(event) => onChange({ ...values, [name]: event.target.value })}
    />
  ))
}

/** The values that are sent: those that were typed. */
export function typedCredentials(values: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => (value.trim() === '' ? [] : [[name, value.trim()]])),
  )
}

/** The first field that must be filled in and is not. */
export function missingCredential(
  { credentials }: ProviderKind,
  values: Readonly<Record<string, string>>,
): string | undefined {
  return credentials.find(({ name, optional }) => optional !== true && (values[name] ?? '').trim() === '')?.name
}

/** Errors that no field of the credentials shows. */
export function isElsewhere(kind: ProviderKind, error: ClientError | null): boolean {
  return error !== null && !kind.credentials.some(({ name }) => faultAt(error, name) !== undefined)
}

function faultAt(error: ClientError | null, name: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined
  return error.issues.find(({ path }) => path.join('.') === `credentials.${name}`)?.message
}

function isSecret(name: string): boolean {
  return /(key|secret|token|password)$/i.test(name)
}
