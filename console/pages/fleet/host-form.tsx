/**
 * Bare metal over SSH, as a form. It has many fields, so that they stand in a table of their own; the server judges
 * them, and what it says stands at each. Its GPUs are filled in from the type, and can be changed.
 */
import { useState, type FormEvent } from 'react'
import type { CallInput } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { useCreate } from '../../api/create.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { CheckField, SelectField, TextArea, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { allFields, bodyOf, firstValues, gpuPresets, groups, type HostField, type Values } from './host-field.ts'

const paths = allFields.map((field) => field.path)

export function HostForm({ onClose }: { onClose: () => void }) {
  const [values, setValues] = useState<Values>(firstValues)
  const action = useCreate('addHost', ['listHosts', 'listFleet'])
  const set = (path: string, value: string): void =>
    setValues((before) => ({
      ...before,
      ...(path === 'gpuType' ? gpuPresets[value as keyof typeof gpuPresets] : {}),
      [path]: value,
    }))
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    action.mutate(
      // The server judges the fields; what is missing or no number it says at its place.
      { body: bodyOf(values) as CallInput<'addHost'>['body'] },
      {
        onSuccess: (host) => {
          toast(`${host.id} is ${host.state}: it is checked before it is sold.`)
          onClose()
        },
      },
    )
  }
  const beside = errorBesideFields(action.error, paths)
  return (
    <Dialog title="Add bare metal" onClose={onClose} wide>
      <form onSubmit={submit} noValidate className="flex flex-col gap-5">
        <p className="text-sm text-muted">
          A machine that this server reaches over SSH. It is checked against what you say here and cleaned before it is
          sold, and cleaned again after each tenant.
        </p>
        {groups.map((group) => (
          <fieldset key={group.title} className="min-w-0">
            <legend className="mb-2 text-sm font-semibold">{group.title}</legend>
            <div className="grid gap-3 sm:grid-cols-2">
              {group.fields.map((field) => (
                <OneField key={field.path} field={field} values={values} set={set} error={action.error} />
              ))}
            </div>
          </fieldset>
        ))}
        {beside !== null && <ErrorNotice error={beside} />}
        {action.error !== null && beside === null && (
          <p role="alert" className="text-sm text-bad">
            Some fields are not right yet: see above.
          </p>
        )}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={action.isPending}>Add it</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

interface OneFieldProps {
  readonly field: HostField
  readonly values: Values
  readonly set: (path: string, value: string) => void
  readonly error: ClientError | null
}

function OneField({ field, values, set, error }: OneFieldProps) {
  const value = values[field.path] ?? ''
  const isNoNumber = field.kind === 'number' && !Number.isFinite(Number(value))
  const shared = { label: field.label, error: isNoNumber ? 'A number, please.' : fieldError(error, field.path) }
  const hint = field.hint === undefined ? {} : { hint: field.hint }
  switch (field.kind) {
    case 'choice':
      return (
        <SelectField
          {...shared}
          {...hint}
          choices={field.choices.map((choice) => ({ value: choice, label: choice }))}
          value={value}
          onChange={(event) => set(field.path, event.target.value)}
        />
      )
    case 'check':
      return (
        <CheckField
          label={field.label}
          {...hint}
          checked={value === 'true'}
          onChange={(event) => set(field.path, event.target.checked ? 'true' : '')}
        />
      )
    case 'block':
      return (
        <TextArea
          {...shared}
          {...hint}
          className="sm:col-span-2"
          rows={4}
          spellCheck={false}
          value={value}
          onChange={(event) => set(field.path, event.target.value)}
        />
      )
    case 'list':
    case 'number':
    case 'secret':
    case 'text':
      return (
        <TextField
          {...shared}
          {...hint}
          type={field.kind === 'secret' ? 'password' : 'text'}
          autoComplete={field.kind === 'secret' ? 'new-password' : 'off'}
          inputMode={field.kind === 'number' ? 'decimal' : 'text'}
          value={value}
          onChange={(event) => set(field.path, event.target.value)}
        />
      )
  }
}
