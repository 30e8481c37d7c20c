/** Options that most orders leave alone: the program, the disk, and automatic stops. */
import { useState } from 'react'
import type { RentalKind } from '../../../src/domain/rental.ts'
import { number } from '../../../src/view/number.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import type { Form } from '../../form/use-form.ts'
import { DateField } from '../../ui/date-field.tsx'
import { SelectField, TextArea, TextField } from '../../ui/field.tsx'
import { Icon } from '../../ui/icon.tsx'
import { SliderField } from '../../ui/slider-field.tsx'
import { countAdvanced, type Advanced } from './advanced.ts'
import type { DiskChoice } from './disk.ts'

interface AdvancedFieldsProps {
  readonly kind: RentalKind
  readonly form: Pick<Form<Advanced>, 'text' | 'values' | 'set' | 'error'>
  readonly disk: DiskChoice
}

export function AdvancedFields({ kind, form, disk }: AdvancedFieldsProps) {
  const [isOpen, setOpen] = useState(false)
  const changed = countAdvanced(form.values)
  return (
    <details
      open={isOpen}
      onToggle={(event) => setOpen(event.currentTarget.open)}
      className="group rounded-md border border-line"
    >
      <summary className="flex cursor-pointer items-center gap-2 rounded-md px-3 py-2 text-sm font-medium hover:bg-sunken">
        <Icon name="right" className="size-4 text-muted transition-transform group-open:rotate-90" />
        Advanced options
        <span className="font-normal text-muted">
          {changed === 0 ? 'variables, start command, disk, idle stop' : `${changed} set`}
        </span>
      </summary>
      {isOpen && (
        <div className="flex flex-col gap-4 border-t border-line p-3">
          <Program kind={kind} form={form} />
          <Sizes kind={kind} form={form} disk={disk} />
          <Stopping kind={kind} form={form} />
        </div>
      )}
    </details>
  )
}

type PartProps = Pick<AdvancedFieldsProps, 'kind' | 'form'>

function Program({ kind, form }: PartProps) {
  return (
    <div className="grid items-start gap-3 sm:grid-cols-2">
      {kind !== 'bare-metal' && (
        <TextArea
          label="Environment variables"
          rows={4}
          spellCheck={false}
          placeholder={'HF_TOKEN={{ secrets.HF_TOKEN }}\nMODE=train'}
          hint="One NAME=value per line. Values can refer to secrets."
          {...form.text('env')}
        />
      )}
      {kind === 'container' && (
        <TextArea
          label="Start command"
          rows={4}
          spellCheck={false}
          placeholder="python train.py"
          hint="Runs with /bin/sh instead of the image's entrypoint."
          {...form.text('start')}
        />
      )}
      {kind !== 'bare-metal' && (
        <TextArea
          label="Script at every start"
          rows={3}
          spellCheck={false}
          placeholder="pip install -r /data/requirements.txt"
          hint="Runs beside the entrypoint; its output is in the log."
          {...form.text('onStart')}
        />
      )}
      {kind !== 'container' && (
        <TextArea
          label="User data"
          rows={3}
          spellCheck={false}
          placeholder={kind === 'bare-metal' ? '#!/bin/sh' : '#cloud-config'}
          hint={kind === 'bare-metal' ? 'A script that runs once.' : 'For cloud-init.'}
          {...form.text('userData')}
        />
      )}
      {kind === 'container' && <RegistryField form={form} />}
    </div>
  )
}

function RegistryField({ form }: Pick<PartProps, 'form'>) {
  const logins = useCall('listRegistryCredentials', undefined, { enabled: useMay('compute:read') }).data
  return (
    <SelectField
      label="Registry login"
      hint="For a private image."
      choices={[
        { value: '', label: 'None' },
        ...(logins?.registryCredentials ?? []).map(({ id, name }) => ({ value: id, label: name })),
      ]}
      {...form.text('registry')}
    />
  )
}

const MIN_DISK_GB = 10

function Sizes({ kind, form, disk }: AdvancedFieldsProps) {
  if (kind === 'bare-metal') return null
  return (
    <div className="grid items-start gap-3 sm:grid-cols-2">
      <SliderField
        label="Disk (GB)"
        min={MIN_DISK_GB}
        max={Math.max(MIN_DISK_GB, disk.shareGb)}
        step={10}
        placeholder={String(disk.defaultGb)}
        hint={`At most ${number(disk.shareGb)} GB, the share of the GPUs.`}
        {...form.text('diskGb')}
      />
      {kind === 'container' && (
        <TextField
          label="Shared memory (GB)"
          inputMode="decimal"
          placeholder="Default"
          hint="Size of /dev/shm. Default: half of the memory."
          {...form.text('shmGb')}
        />
      )}
    </div>
  )
}

function Stopping({ kind, form }: PartProps) {
  return (
    <div className="grid items-start gap-3 sm:grid-cols-2">
      <div className="grid grid-cols-2 items-start gap-3">
        <TextField
          label="Idle for (minutes)"
          inputMode="numeric"
          placeholder="Never"
          hint="5 or more without activity."
          {...form.text('idleMinutes')}
        />
        <SelectField
          label="When idle"
          choices={[
            { value: 'notify', label: 'Notify' },
            ...(kind === 'bare-metal' ? [] : [{ value: 'stop', label: 'Stop' }]),
            { value: 'terminate', label: 'Terminate' },
          ]}
          {...form.text('idleAction')}
        />
      </div>
      {kind !== 'bare-metal' && (
        <DateField label="Stops at" hint="Stops then; its disk is kept." {...form.text('stopAt')} />
      )}
    </div>
  )
}
