/** Storage prices, one per region. */
import { exactMoney } from '../../../src/view/money.ts'
import { TextField } from '../../ui/field.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { draftOf, faultOfStoragePrice, isSame, type Draft, type DraftProps, type StoragePrice } from './draft.ts'

export function StoragePrices({ book, draft, onDraft }: DraftProps) {
  const change = (row: StoragePrice, to: { price?: string; enabled?: boolean }): void =>
    onDraft({
      ...draft,
      storage: {
        ...draft.storage,
        [row.region]: { ...draftOf(row, row.perGbHourUsd, draft.storage[row.region]), ...to },
      },
    })
  return (
    <Table
      label="Storage prices"
      columns={columnsWith(draft, change)}
      rows={book.storage}
      rowKey={(row) => row.region}
      empty={<p className="text-sm text-muted">No region has a price, so volumes cannot be created.</p>}
    />
  )
}

function columnsWith(
  draft: Draft,
  change: (row: StoragePrice, to: { price?: string; enabled?: boolean }) => void,
): ReadonlyArray<Column<StoragePrice>> {
  const typedOf = (row: StoragePrice) => draftOf(row, row.perGbHourUsd, draft.storage[row.region])
  return [
    { name: 'region', header: 'Region', cell: (row) => row.region },
    {
      name: 'price',
      header: 'USD per GB-hour',
      cell: (row) => {
        const typed = typedOf(row)
        return (
          <TextField
            label={`Price of storage in ${row.region}`}
            hideLabel
            inputMode="decimal"
            className="w-40"
            value={typed.price}
            onChange={(event) => change(row, { price: event.target.value.trim() })}
            error={faultOfStoragePrice(typed.price)}
          />
        )
      },
    },
    {
      name: 'enabled',
      header: 'For sale',
      cell: (row) => (
        <input
          type="checkbox"
          aria-label={`Sell storage in ${row.region}`}
          className="size-4 accent-accent"
          checked={typedOf(row).enabled}
          onChange={(event) => change(row, { enabled: event.target.checked })}
        />
      ),
    },
    {
      name: 'was',
      header: 'Before',
      align: 'right',
      wideOnly: true,
      cell: (row) => (isSame(row.perGbHourUsd, row.enabled, typedOf(row)) ? '' : exactMoney(row.perGbHourUsd)),
    },
  ]
}
