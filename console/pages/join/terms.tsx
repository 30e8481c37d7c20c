/** On which terms the machine is offered; they become options of its command. */
import type { z } from 'zod'
import { virtualMachineRegion } from '../../../src/contract/region.ts'
import type { Form } from '../../form/use-form.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { firstWish, simulatedModels, type JoinWish } from './command.ts'

type VirtualMachineRegion = z.output<typeof virtualMachineRegion>

const offerings = [
  { value: 'marketplace', label: 'Containers (marketplace)' },
  { value: 'virtual-machine', label: 'Virtual machines' },
] as const

const gpus = [{ value: '', label: 'Those that it has' }, ...simulatedModels.map(simulatedChoice)]
const FIRST_REGION = 'us-central-1' satisfies VirtualMachineRegion
const regions = virtualMachineRegion.options.map((name) => ({ value: name, label: name }))

export function JoinTerms({ form }: { form: Form<JoinWish> }) {
  const { offering, simulated } = form.values
  const isMarketplace = offering === 'marketplace'
  const isSimulated = simulated !== ''
  return (
    <div className="grid items-start gap-4 sm:grid-cols-2">
      <SelectField
        label="Sells"
        choices={offerings}
        value={offering}
        // Each has regions of its own.
        onChange={(event) =>
          event.target.value === 'marketplace'
            ? form.set({ offering: 'marketplace', region: firstWish.region })
            : form.set({ offering: 'virtual-machine', region: FIRST_REGION })
        }
      />
      {isMarketplace ? (
        <TextField label="Region" hint="Any word; customers filter by it." {...form.text('region')} />
      ) : (
        <SelectField label="Region" choices={regions} {...form.text('region')} />
      )}
      <SelectField
        label="GPUs"
        choices={gpus}
        hint={isSimulated ? 'Declared, not there: the listing says so.' : 'Found by nvidia-smi.'}
        {...form.text('simulated')}
      />
      {isSimulated && <TextField label="How many GPUs" inputMode="numeric" {...form.text('gpuCount')} />}
      {isMarketplace && (
        <TextField
          label="Price, USD a GPU and hour"
          inputMode="decimal"
          hint="Can be changed at any time."
          {...form.text('price')}
        />
      )}
      <TextField
        label="Name"
        placeholder="Three random words"
        hint="Stays for good. For one machine only."
        {...form.text('name')}
      />
    </div>
  )
}

function simulatedChoice({ value, label }: { value: string; label: string }) {
  return { value, label: `Simulated ${label}` }
}
