/** On which terms the machine is offered; they become options of its command. */
import type { z } from 'zod'
import { virtualMachineRegion } from '../../../src/contract/region.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { firstWish, simulatedModels, type JoinFaults, type JoinWish } from './command.ts'

interface JoinTermsProps {
  readonly wish: JoinWish
  readonly faults: JoinFaults
  readonly onChange: (wish: JoinWish) => void
}

type VirtualMachineRegion = z.output<typeof virtualMachineRegion>

const offerings = [
  { value: 'marketplace', label: 'Containers (marketplace)' },
  { value: 'virtual-machine', label: 'Virtual machines' },
] as const

const gpus = [{ value: '', label: 'Those that it has' }, ...simulatedModels.map(simulatedChoice)]
const FIRST_REGION = 'us-central-1' satisfies VirtualMachineRegion
const regions = virtualMachineRegion.options.map((name) => ({ value: name, label: name }))

export function JoinTerms({ wish, faults, onChange }: JoinTermsProps) {
  const set = (change: Partial<JoinWish>): void => onChange({ ...wish, ...change })
  const isMarketplace = wish.offering === 'marketplace'
  const isSimulated = wish.simulated !== ''
  return (
    <div className="grid items-start gap-4 sm:grid-cols-2">
      <SelectField
        label="Sells"
        choices={offerings}
        value={wish.offering}
        // Each has regions of its own.
        onChange={(event) =>
          event.target.value === 'marketplace'
            ? set({ offering: 'marketplace', region: firstWish.region })
            : set({ offering: 'virtual-machine', region: FIRST_REGION })
        }
      />
      {isMarketplace ? (
        <TextField
          label="Region"
          value={wish.region}
          onChange={(event) => set({ region: event.target.value.trim() })}
          error={faults.region}
          hint="Any word; customers filter by it."
        />
      ) : (
        <SelectField
          label="Region"
          choices={regions}
          value={wish.region}
          onChange={(event) => set({ region: event.target.value })}
          error={faults.region}
        />
      )}
      <SelectField
        label="GPUs"
        choices={gpus}
        value={wish.simulated}
        onChange={(event) => set({ simulated: event.target.value })}
        error={faults.simulated}
        hint={isSimulated ? 'Declared, not there: the listing says so.' : 'Found by nvidia-smi.'}
      />
      {isSimulated && (
        <TextField
          label="How many GPUs"
          inputMode="numeric"
          value={wish.gpuCount}
          onChange={(event) => set({ gpuCount: event.target.value.trim() })}
          error={faults.gpuCount}
        />
      )}
      {isMarketplace && (
        <TextField
          label="Price, USD a GPU and hour"
          inputMode="decimal"
          value={wish.price}
          onChange={(event) => set({ price: event.target.value.trim() })}
          error={faults.price}
          hint="Can be changed at any time."
        />
      )}
      <TextField
        label="Name"
        value={wish.name}
        placeholder="Three random words"
        onChange={(event) => set({ name: event.target.value.trim() })}
        error={faults.name}
        hint="Stays for good. For one machine only."
      />
    </div>
  )
}

function simulatedChoice({ value, label }: { value: string; label: string }) {
  return { value, label: `Simulated ${label}` }
}
