/** Columns that the tables of prices share. */
import { textColumn } from '../../list/column.tsx'
import type { Column } from '../../ui/table.tsx'

/** A box to sell what the row is about. */
export function saleColumn<Row>(
  nameOf: (row: Row) => string,
  typedOf: (row: Row) => { readonly enabled: boolean },
  onChange: (row: Row, enabled: boolean) => void,
  width?: string,
): Column<Row> {
  const box = (row: Row) => (
    <input
      type="checkbox"
      aria-label={`Sell ${nameOf(row)}`}
      className="size-4 accent-accent"
      checked={typedOf(row).enabled}
      onChange={(event) => onChange(row, event.target.checked)}
    />
  )
  return textColumn('For sale', box, width === undefined ? {} : { width })
}

/** The saved value of a changed row. */
export function beforeColumn<Row>(read: (row: Row) => string): Column<Row> {
  return textColumn('Before', read, { align: 'right', wideOnly: true })
}
