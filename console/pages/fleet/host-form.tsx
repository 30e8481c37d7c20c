/**
 * Adds a bare-metal host that the server reaches over SSH. The fields come from `host-field.ts`; choosing a GPU type
 * fills in the usual values.
 */
import { CallDialog } from '../../form/dialog.tsx'
import type { Form } from '../../form/use-form.ts'
import { CheckField, SelectField, TextArea, TextField } from '../../ui/field.tsx'
import { bodyOf, firstValues, gpuPresets, groups, type HostField, type Values } from './host-field.ts'

export function HostForm({ onClose }: { onClose: () => void }) {
  return (
    <CallDialog
      operation="addHost"
      refreshes={['listHosts', 'listFleet']}
      title="Add bare metal"
      action="Add host"
      wide
      initial={firstValues}
      body={bodyOf}
      done={(host) => `Added ${host.id}. It is checked before it is sold.`}
      onClose={onClose}
    >
      {(form) => (
        <>
          <p className="text-sm text-muted">
            A machine that this server reaches over SSH. It is checked against these values before it is sold, and
            cleaned after each tenant.
          </p>
          {groups.map((group) => (
            <fieldset key={group.title} className="min-w-0">
              <legend className="mb-2 text-sm font-semibold">{group.title}</legend>
              <div className="grid gap-3 sm:grid-cols-2">
                {group.fields.map((field) => (
                  <OneField key={field.path} field={field} form={form} />
                ))}
              </div>
            </fieldset>
          ))}
        </>
      )}
    </CallDialog>
  )
}

function OneField({ field, form }: { field: HostField; form: Form<Values> }) {
  const { label, path, hint } = field
  const shared = { ...form.text(path), label, ...(hint === undefined ? {} : { hint }) }
  switch (field.kind) {
    case 'choice': {
      const choices = field.choices.map((choice) => ({ value: choice, label: choice }))
      if (path !== 'gpuType') return <SelectField {...shared} choices={choices} />
      const choose = (type: string): void => form.set({ ...gpuPresets[type as keyof typeof gpuPresets], gpuType: type })
      return <SelectField {...shared} choices={choices} onChange={(event) => choose(event.target.value)} />
    }
    case 'check':
      return (
        <CheckField
          label={label}
          {...(hint === undefined ? {} : { hint })}
          checked={shared.value === 'true'}
          onChange={(event) => form.set({ [path]: event.target.checked ? 'true' : '' })}
        />
      )
    case 'block':
      return <TextArea {...shared} className="sm:col-span-2" rows={4} spellCheck={false} />
    case 'list':
    case 'number':
    case 'text':
      return <TextField {...shared} inputMode={field.kind === 'number' ? 'decimal' : 'text'} />
    case 'secret':
      return <TextField {...shared} type="password" autoComplete="new-password" />
  }
}
