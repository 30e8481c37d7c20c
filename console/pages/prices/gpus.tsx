/** GPU prices: hundreds of rows, with filters and one price for all rows shown. */
import { useState, type FormEvent } from 'react'
import { count } from '../../../src/view/number.ts'
import { networkLabels } from '../../../src/view/gpu.ts'
import { exactMoney } from '../../../src/view/money.ts'
import { rentalKindLabels } from '../../../src/view/rental.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { choicesOf } from '../../list/filter.tsx'
import { Button } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { VirtualTable } from '../../ui/virtual-table.tsx'
import { beforeColumn, saleColumn } from './column.tsx'
import {
  draftOf,
  faultOfGpuPrice,
  gpuKey,
  isSame,
  type Draft,
  type DraftProps,
  type GpuPrice,
  type PriceBook,
} from './draft.ts'

interface Filter {
  readonly machineType: string
  readonly region: string
  readonly gpuType: string
  readonly networkType: string
  readonly gpuCount: string
}

const everything: Filter = { machineType: '', region: '', gpuType: '', networkType: '', gpuCount: '' }

export function GpuPrices({ book, draft, onDraft }: DraftProps) {
  const [filter, setFilter] = useState<Filter>(everything)
  const rows = book.gpus.filter((row) => fits(row, filter))
  const change = (changed: readonly GpuPrice[], to: { price?: string; enabled?: boolean }): void => {
    const gpus = { ...draft.gpus }
    for (const row of changed) {
      const key = gpuKey(row)
      gpus[key] = { ...draftOf(row, row.perGpuHourUsd, gpus[key]), ...to }
    }
    onDraft({ ...draft, gpus })
  }
  return (
    <div className="flex flex-col gap-3">
      <Filters book={book} filter={filter} onFilter={setFilter} />
      <div className="flex flex-wrap items-end justify-between gap-3">
        <p role="status" className="text-sm text-muted">
          {count(rows.length, 'row')}
          {rows.length === book.gpus.length ? '' : ` of ${book.gpus.length}`}
        </p>
        <SetAll rowCount={rows.length} onSet={(price) => change(rows, { price })} />
      </div>
      <VirtualTable
        label="GPU prices"
        columns={columnsWith(draft, change)}
        rows={rows}
        rowKey={gpuKey}
        empty={
          <Empty title="No prices match" action={<Button onClick={() => setFilter(everything)}>Show all</Button>} />
        }
      />
    </div>
  )
}

interface FiltersProps {
  readonly book: PriceBook
  readonly filter: Filter
  readonly onFilter: (filter: Filter) => void
}

function Filters({ book, filter, onFilter }: FiltersProps) {
  const fields = [
    { name: 'machineType', label: 'Machine', text: labelIn(rentalKindLabels) },
    { name: 'region', label: 'Region', text: String },
    { name: 'gpuType', label: 'GPU', text: (value: string) => value.toUpperCase() },
    { name: 'networkType', label: 'Network', text: labelIn(networkLabels) },
    { name: 'gpuCount', label: 'GPUs per machine', text: String },
  ] as const
  return (
    <div className="grid grid-cols-2 gap-3 md:grid-cols-5">
      {fields.map(({ name, label, text }) => (
        <SelectField
          key={name}
          label={label}
          choices={[
            { value: '', label: 'All' },
            ...choicesOf([...new Set(book.gpus.map((row) => String(row[name])))].sort(byNumberOrText), text),
          ]}
          value={filter[name]}
          onChange={(event) => onFilter({ ...filter, [name]: event.target.value })}
        />
      ))}
    </div>
  )
}

function SetAll({ rowCount, onSet }: { rowCount: number; onSet: (price: string) => void }) {
  const [price, setPrice] = useState('')
  const [isChecked, setChecked] = useState(false)
  const fault = faultOfGpuPrice(price)
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setChecked(true)
    if (fault !== undefined) return
    onSet(price)
    setPrice('')
    setChecked(false)
  }
  return (
    <form onSubmit={submit} className="flex items-start gap-2">
      <TextField
        label="Price for all rows shown"
        hideLabel
        inputMode="decimal"
        placeholder="Price, such as 2.49"
        className="w-44"
        value={price}
        onChange={(event) => setPrice(event.target.value.trim())}
        error={isChecked ? fault : undefined}
      />
      <Button type="submit" disabled={rowCount === 0}>
        Set for {count(rowCount, 'row')}
      </Button>
    </form>
  )
}

function columnsWith(
  draft: Draft,
  change: (rows: readonly GpuPrice[], to: { price?: string; enabled?: boolean }) => void,
): Columns<GpuPrice> {
  const typedOf = (row: GpuPrice) => draftOf(row, row.perGpuHourUsd, draft.gpus[gpuKey(row)])
  return [
    textColumn('Machine', ({ machineType }) => rentalKindLabels[machineType]),
    textColumn('Region', 'region'),
    textColumn('GPU', ({ gpuType }) => gpuType.toUpperCase(), { width: 'minmax(0, 0.6fr)' }),
    textColumn('Network', ({ networkType }) => networkLabels[networkType]),
    textColumn('GPUs', 'gpuCount', { width: 'minmax(0, 0.5fr)', align: 'right' }),
    {
      name: 'price',
      header: 'USD per GPU-hour',
      width: 'minmax(0, 1.2fr)',
      cell: (row) => {
        const typed = typedOf(row)
        return (
          // Padding for the focus ring, which the row would cut off.
          <div className="p-1">
            <TextField
              label={`Price of ${gpuKey(row)}`}
              hideLabel
              inputMode="decimal"
              value={typed.price}
              aria-invalid={faultOfGpuPrice(typed.price) === undefined ? undefined : true}
              onChange={(event) => change([row], { price: event.target.value.trim() })}
            />
          </div>
        )
      },
    },
    saleColumn(gpuKey, typedOf, (row, enabled) => change([row], { enabled }), 'minmax(0, 0.5fr)'),
    beforeColumn((row) => (isSame(row.perGpuHourUsd, row.enabled, typedOf(row)) ? '' : exactMoney(row.perGpuHourUsd))),
  ]
}

function fits(row: GpuPrice, filter: Filter): boolean {
  return (Object.keys(filter) as Array<keyof Filter>).every(
    (name) => filter[name] === '' || filter[name] === String(row[name]),
  )
}

function labelIn(labels: Readonly<Record<string, string>>): (value: string) => string {
  return (value) => labels[value] ?? value
}

function byNumberOrText(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true })
}
