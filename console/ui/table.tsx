/** `Table` for short lists; virtual-table.tsx has one for long ones, which takes the same columns. */
import type { ReactNode } from 'react'
import { cx } from './class.ts'

export interface Column<Row> {
  readonly name: string
  readonly header: ReactNode
  readonly cell: (row: Row) => ReactNode
  readonly align?: 'right'
  /** Hidden on narrow screens. */
  readonly wideOnly?: boolean
  /** Virtual tables: a CSS grid track. Default `1fr`. */
  readonly width?: string
  /** Virtual tables: stays in view at the right edge. */
  readonly isPinned?: boolean
  /** Virtual tables with `onSort`. */
  readonly sortable?: boolean
}

/** Names of the fields that have values of a type. */
export type FieldOf<Row, Value> = {
  [name in keyof Row & string]-?: Row[name] extends Value ? name : never
}[keyof Row & string]

export interface TableProps<Row> {
  readonly label: string
  readonly columns: ReadonlyArray<Column<Row>>
  readonly rows: readonly Row[]
  /** A field, or a function. */
  readonly rowKey: FieldOf<Row, string | number> | ((row: Row) => string | number)
  /** Shown without rows. A text is muted. */
  readonly empty: ReactNode
}

export function keyOf<Row>(row: Row, rowKey: TableProps<Row>['rowKey']): string | number {
  return typeof rowKey === 'function' ? rowKey(row) : (row[rowKey] as string | number)
}

export function NoRows({ empty }: { empty: ReactNode }) {
  return typeof empty === 'string' ? <p className="text-sm text-muted">{empty}</p> : empty
}

const cellLook = 'px-3 py-2 align-middle'
/** On phones a row is a card: its first cell is the title, the others are facts with the name of their column. */
const title = 'max-sm:p-0 max-sm:font-medium'
const fact = cx(
  'max-sm:flex max-sm:items-baseline max-sm:justify-between max-sm:gap-4 max-sm:p-0 max-sm:text-right max-sm:empty:hidden',
  // The slash keeps the name out of what screen readers speak: they know the column.
  "max-sm:before:shrink-0 max-sm:before:text-muted max-sm:before:content-[attr(data-label)_/_'']",
  "max-sm:data-[label=Actions]:mt-1 max-sm:data-[label=Actions]:before:content-['']",
)

export function Table<Row>({ label, columns, rows, rowKey, empty }: TableProps<Row>) {
  if (rows.length === 0) return <NoRows empty={empty} />
  const side = (column: Column<Row>): string =>
    cx(cellLook, column.align === 'right' && 'text-right tabular-nums', column.wideOnly === true && 'max-md:hidden')
  return (
    // Narrow screens show cards; what is wide in them scrolls, not the page. A group, not a region: the card around it is often a landmark of
    // the same name.
    <div
      className="relative overflow-x-auto rounded-lg border border-line bg-surface"
      tabIndex={0}
      role="group"
      aria-label={label}
    >
      <table className="w-full border-collapse text-sm max-sm:block" aria-label={label}>
        <thead className="border-b border-line text-left text-muted max-sm:sr-only">
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" className={cx(side(column), 'font-medium whitespace-nowrap')}>
                {column.header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="max-sm:block">
          {rows.map((row) => (
            <tr
              key={keyOf(row, rowKey)}
              className="border-b border-line last:border-b-0 hover:bg-sunken max-sm:flex max-sm:flex-col max-sm:gap-1 max-sm:px-3 max-sm:py-2.5"
            >
              {columns.map((column, at) => (
                <td key={column.name} data-label={column.name} className={cx(side(column), at === 0 ? title : fact)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
