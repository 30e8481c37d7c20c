/** How the machine is offered. These values become options of the command. */
import type { z } from 'zod'
import { virtualMachineRegion } from '../../../src/contract/region.ts'
import type { Form } from '../../form/use-form.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { defaultValues, simulatedModels, type JoinValues } from './command.ts'

type VirtualMachineRegion = z.output<typeof virtualMachineRegion>

const offerings = [
  { value: 'marketplace', label: 'Containers (marketplace)' },
  { value: 'virtual-machine', label: 'Virtual machines' },
] as const

const gpus = [{ value: '', label: 'Detect automatically' }, ...simulatedModels.map(simulatedChoice)]
const FIRST_REGION = 'us-central-1' satisfies VirtualMachineRegion
const regions = virtualMachineRegion.options.map((name) => ({ value: name, label: name }))

export function JoinTerms({ form }: { form: Form<JoinValues> }) {
  const { offering, simulated } = form.values
  const isMarketplace = offering === 'marketplace'
  const isSimulated = simulated !== ''
  return (
    <div className="grid items-start gap-4 sm:grid-cols-2">
      <SelectField
        label="Offer as"
        choices={offerings}
        value={offering}
        // Each offering has its own regions.
        onChange={(event) =>
          event.target.value === 'marketplace'
            ? form.set({ offering: 'marketplace', region: defaultValues.region })
            : form.set({ offering: 'virtual-machine', region: FIRST_REGION })
        }
      />
      {isMarketplace ? (
        <TextField label="Region" hint="Customers can filter by it." {...form.text('region')} />
      ) : (
        <SelectField label="Region" choices={regions} {...form.text('region')} />
      )}
      <SelectField
        label="GPUs"
        choices={gpus}
        hint={isSimulated ? 'The listing shows that they are simulated.' : 'Detected with nvidia-smi.'}
        {...form.text('simulated')}
      />
      {isSimulated && <TextField label="Number of GPUs" inputMode="numeric" {...form.text('gpuCount')} />}
      {isMarketplace && (
        <TextField
          label="Price per GPU-hour (USD)"
          inputMode="decimal"
          hint="You can change it at any time."
          {...form.text('price')}
        />
      )}
      <TextField label="Name" placeholder="Three random words" hint="Cannot be changed later." {...form.text('name')} />
    </div>
  )
}

function simulatedChoice({ value, label }: { value: string; label: string }) {
  return { value, label: `Simulated ${label}` }
}
