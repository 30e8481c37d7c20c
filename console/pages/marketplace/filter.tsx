/** Filters of the marketplace. Text stays as typed, even while it is not a valid filter. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { gpuLabel } from '../../../src/view/gpu.ts'
import { number } from '../../../src/view/number.ts'
import { SelectField, TextField, type Choice } from '../../ui/field.tsx'
import type { marketplaceSearch } from './search.ts'

type Search = ReturnType<typeof marketplaceSearch>
export type Change = (changed: Search) => void

const freeSteps = [1, 2, 4, 8] as const
const any: Choice = { value: '', label: 'Any' }

interface FilterFieldsProps {
  readonly counts: Reply<'countMachines'>
  readonly search: Search
  readonly onChange: Change
}

export function FilterFields({ counts, search, onChange }: FilterFieldsProps) {
  const [text, setText] = useTyped(search.text ?? '')
  const [price, setPrice] = useTyped(search.price === undefined ? '' : String(search.price))
  const models = choicesOf(counts.gpuModels, gpuLabel)
  const regions = choicesOf(counts.regions, String)
  const changePrice = (typed: string): void => {
    setPrice(typed)
    const amount = /^\d{1,4}(\.\d{0,9})?$/.test(typed.trim()) ? Number.parseFloat(typed) : undefined
    onChange({ price: amount })
  }
  const isPriceWrong = price.trim() !== '' && search.price === undefined
  return (
    <div role="search" aria-label="Machines" className="grid grid-cols-2 gap-3 lg:grid-cols-[1.2fr_1fr_1fr_1fr_1.6fr]">
      <SelectField
        label="GPU model"
        value={search.gpu ?? ''}
        onChange={(event) => onChange({ gpu: event.target.value || undefined })}
        choices={withChosen(models, search.gpu)}
      />
      <SelectField
        label="Free GPUs"
        value={search.free === undefined ? '' : String(search.free)}
        onChange={(event) => onChange({ free: event.target.value === '' ? undefined : Number(event.target.value) })}
        choices={[
          any,
          ...[...new Set([...freeSteps, ...(search.free === undefined ? [] : [search.free])])]
            .sort((a, b) => a - b)
            .map((n) => ({ value: String(n), label: `${n} or more` })),
        ]}
      />
      <SelectField
        label="Region"
        value={search.region ?? ''}
        onChange={(event) => onChange({ region: event.target.value || undefined })}
        choices={withChosen(regions, search.region)}
      />
      <TextField
        label="Maximum price"
        value={price}
        inputMode="decimal"
        placeholder="USD per GPU-hour"
        onChange={(event) => changePrice(event.target.value)}
        error={isPriceWrong ? 'Enter a price such as 2.49' : undefined}
      />
      <TextField
        label="Search"
        type="search"
        className="max-lg:col-span-2"
        value={text}
        placeholder="name, CPU, cluster, supplier"
        onChange={(event) => {
          setText(event.target.value)
          onChange({ text: event.target.value.trim() || undefined })
        }}
      />
    </div>
  )
}

/**
 * Text that is being typed is ahead of the URL. Without focus in a field, the URL wins, as when filters are cleared.
 */
function useTyped(inAddress: string): [string, (typed: string) => void] {
  const [typed, setTyped] = useState(inAddress)
  const [appliedText, setAppliedText] = useState(inAddress)
  if (appliedText !== inAddress) {
    setAppliedText(inAddress)
    if (!(document.activeElement instanceof HTMLInputElement)) setTyped(inAddress)
  }
  return [typed, setTyped]
}

/**
 * Each value with its number of machines. Vendors spell the name of a model in several ways, so values with the same
 * label are merged.
 */
function choicesOf(counts: Reply<'countMachines'>['regions'], labelOf: (name: string) => string): Choice[] {
  const byLabel = new Map<string, number>()
  for (const { name, machines } of counts) byLabel.set(labelOf(name), (byLabel.get(labelOf(name)) ?? 0) + machines)
  return [...byLabel]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([value, n]) => ({ value, label: `${value} (${number(n)})` }))
}

/** Adds the value in the URL: it may be part of a name, or no longer exist. */
function withChosen(choices: readonly Choice[], chosen: string | undefined): Choice[] {
  const isKnown = chosen === undefined || choices.some(({ value }) => value === chosen)
  return [any, ...(isKnown ? [] : [{ value: chosen, label: chosen }]), ...choices]
}
