/** Storage prices, one per region. */
import { exactMoney } from '../../../src/view/money.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { TextField } from '../../ui/field.tsx'
import { Table } from '../../ui/table.tsx'
import { beforeColumn, saleColumn } from './column.tsx'
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
      rowKey="region"
      empty="No region has a price, so volumes cannot be created."
    />
  )
}

function columnsWith(
  draft: Draft,
  change: (row: StoragePrice, to: { price?: string; enabled?: boolean }) => void,
): Columns<StoragePrice> {
  const typedOf = (row: StoragePrice) => draftOf(row, row.perGbHourUsd, draft.storage[row.region])
  return [
    textColumn('Region', 'region'),
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
    saleColumn(
      ({ region }) => `storage in ${region}`,
      typedOf,
      (row, enabled) => change(row, { enabled }),
    ),
    beforeColumn((row) => (isSame(row.perGbHourUsd, row.enabled, typedOf(row)) ? '' : exactMoney(row.perGbHourUsd))),
  ]
}
