/**
 * Tables. One of a known, small size is a plain one; a list that can grow to thousands of rows is a `VirtualTable`,
 * which makes only the rows that can be seen. Both take the same columns.
 */
import { useVirtualizer } from '@tanstack/react-virtual'
import { useRef, type ReactNode } from 'react'
import { cx } from './class.ts'

export interface Column<Row> {
  readonly name: string
  readonly header: ReactNode
  readonly cell: (row: Row) => ReactNode
  readonly align?: 'right'
  /** Left out on narrow screens. */
  readonly wideOnly?: boolean
  /** For virtual tables: its share of the width, as a CSS grid track. Default `1fr`. */
  readonly width?: string
}

interface TableProps<Row> {
  readonly label: string
  readonly columns: ReadonlyArray<Column<Row>>
  readonly rows: readonly Row[]
  readonly rowKey: (row: Row) => string | number
  /** What stands there when there are no rows. */
  readonly empty: ReactNode
}

const cellLook = 'px-3 py-2 align-middle'

export function Table<Row>({ label, columns, rows, rowKey, empty }: TableProps<Row>) {
  if (rows.length === 0) return empty
  const side = (column: Column<Row>): string =>
    cx(cellLook, column.align === 'right' && 'text-right tabular-nums', column.wideOnly === true && 'max-md:hidden')
  return (
    // Narrow screens scroll the table, not the page; it can be reached by keys.
    <div
      className="overflow-x-auto rounded-lg border border-line bg-surface"
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      <table className="w-full border-collapse text-sm" aria-label={label}>
        <thead className="border-b border-line text-left text-muted">
          <tr>
            {columns.map((column) => (
              <th key={column.name} scope="col" className={cx(side(column), 'font-medium whitespace-nowrap')}>
                {column.header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)} className="border-b border-line last:border-b-0 hover:bg-sunken">
              {columns.map((column) => (
                <td key={column.name} className={side(column)}>
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

const ROW_PX = 44
const OVERSCAN = 12

/** Rows are of one height and stand in a box that scrolls. */
export function VirtualTable<Row>({ label, columns, rows, rowKey, empty }: TableProps<Row>) {
  const box = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    getItemKey: (index) => {
      const row = rows[index]
      return row === undefined ? index : rowKey(row)
    },
  })
  if (rows.length === 0) return empty
  const template = columns.map((column) => column.width ?? 'minmax(0, 1fr)').join(' ')
  const row = 'grid items-center min-w-[56rem]'
  const side = (column: Column<Row>): string =>
    cx('truncate px-3', column.align === 'right' && 'text-right tabular-nums')
  return (
    <div
      ref={box}
      className="max-h-[70dvh] overflow-auto rounded-lg border border-line bg-surface text-sm"
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      <div role="table" aria-label={label} aria-rowcount={rows.length + 1}>
        <div role="rowgroup" className="sticky top-0 z-10 border-b border-line bg-surface text-muted">
          <div
            role="row"
            aria-rowindex={1}
            className={cx(row, 'h-11 font-medium')}
            style={{ gridTemplateColumns: template }}
          >
            {columns.map((column) => (
              <div key={column.name} role="columnheader" className={side(column)}>
                {column.header}
              </div>
            ))}
          </div>
        </div>
        <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const value = rows[item.index]
            if (value === undefined) return null
            return (
              <div
                key={item.key}
                role="row"
                aria-rowindex={item.index + 2}
                className={cx(row, 'absolute inset-x-0 top-0 h-11 border-b border-line hover:bg-sunken')}
                style={{ gridTemplateColumns: template, transform: `translateY(${item.start}px)` }}
              >
                {columns.map((column) => (
                  <div key={column.name} role="cell" className={side(column)}>
                    {column.cell(value)}
                  </div>
                ))}
              </div>
            )
          })}
        </div>
      </div>
    </div>
  )
}
