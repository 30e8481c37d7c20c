/** Columns that the tables of prices share. */
import { textColumn } from '../../list/column.tsx'
import type { Column } from '../../ui/table.tsx'

/** A checkbox that puts the row's item on sale. */
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

/** The saved value, shown if the row has changed. */
export function beforeColumn<Row>(read: (row: Row) => string): Column<Row> {
  return textColumn('Before', read, { align: 'right', wideOnly: true })
}
