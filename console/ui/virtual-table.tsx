/** A table for long lists: it renders only visible rows. Separate from `Table`, because its library weighs 9 KB. */
import { useVirtualizer } from '@tanstack/react-virtual'
import { memo, useCallback, useEffect, useEffectEvent, useRef } from 'react'
import { cx } from './class.ts'
import { SkeletonText } from './skeleton.tsx'
import { keyOf, NoRows, type Column, type TableProps } from './table.tsx'

interface Sorting {
  /** The name of a column. */
  readonly name: string
  readonly isDown: boolean
}

/** The height of a row in pixels, like the positions of rows; a rem can have any size. */
const ROW_PX = 44
const OVERSCAN = 8

interface VirtualTableProps<Row> extends Omit<TableProps<Row>, 'rows'> {
  /** Rows that are not read yet are undefined. */
  readonly rows: ReadonlyArray<Row | undefined>
  /** The rows in view, to read them. */
  readonly onShow?: (first: number, last: number) => void
  /** The order of the given rows. */
  readonly sorting?: Sorting
  /** A sortable header was pressed. */
  readonly onSort?: (name: string) => void
  /** Below this width the table scrolls sideways. Default 56rem. */
  readonly minWidth?: string
  /** When this changes, the table scrolls to the top. */
  readonly shows?: string
}

/** Rows have a fixed height. Visible rows are memoized: keep `columns` and `rowKey` stable for long lists. */
export function VirtualTable<Row>(props: VirtualTableProps<Row>) {
  const { label, columns, rows, rowKey, empty, sorting, onSort, onShow, minWidth = '56rem', shows } = props
  const box = useRef<HTMLDivElement>(null)
  // A new function makes the virtualizer measure everything again.
  const getItemKey = useCallback(
    (index: number) => {
      const row = rows[index]
      return row === undefined ? index : keyOf(row, rowKey)
    },
    [rows, rowKey],
  )
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    getItemKey,
  })
  useEffect(() => {
    box.current?.scrollTo({ top: 0 })
  }, [shows])
  const items = virtual.getVirtualItems()
  const [first = 0, last = 0] = [items[0]?.index, items.at(-1)?.index]
  const tellShown = useEffectEvent(() => onShow?.(first, last))
  useEffect(() => tellShown(), [first, last])
  if (rows.length === 0) return <NoRows empty={empty} />
  const template = columns.map((column) => column.width ?? 'minmax(0, 1fr)').join(' ')
  return (
    <div
      ref={box}
      className="relative max-h-[70dvh] overflow-auto rounded-lg border border-line bg-surface text-sm"
      tabIndex={0}
      role="group"
      aria-label={label}
    >
      <div role="table" aria-label={label} aria-rowcount={rows.length + 1} style={{ minWidth }}>
        <div role="rowgroup" className="sticky top-0 z-10 border-b border-line bg-surface text-muted">
          <div
            role="row"
            aria-rowindex={1}
            className="grid items-center font-medium"
            style={{ height: ROW_PX, gridTemplateColumns: template }}
          >
            {columns.map((column) => (
              <HeaderCell key={column.name} column={column} sorting={sorting} onSort={onSort} />
            ))}
          </div>
        </div>
        <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const row = rows[item.index]
            return (
              <VirtualRow
                key={item.key}
                row={row}
                columns={columns}
                template={template}
                index={item.index}
                startPx={item.start}
              />
            )
          })}
        </div>
      </div>
    </div>
  )
}

function sideOf({ align, isPinned }: { readonly align?: 'right'; readonly isPinned?: boolean }): string {
  return cx(
    'truncate px-3',
    align === 'right' && 'text-right tabular-nums',
    isPinned === true && 'sticky right-0 flex h-full items-center bg-surface',
  )
}

interface HeaderProps<Row> {
  readonly column: Column<Row>
  readonly sorting: Sorting | undefined
  readonly onSort: ((name: string) => void) | undefined
}

function HeaderCell<Row>({ column, sorting, onSort }: HeaderProps<Row>) {
  const { name, header, sortable } = column
  if (sortable !== true || onSort === undefined) {
    return (
      <div role="columnheader" className={sideOf(column)}>
        {header}
      </div>
    )
  }
  const order = sorting?.name !== name ? 'none' : sorting.isDown ? 'descending' : 'ascending'
  return (
    <div role="columnheader" aria-sort={order} className={sideOf(column)}>
      <button
        type="button"
        onClick={() => onSort(name)}
        className="max-w-full truncate rounded px-1 -mx-1 font-medium -outline-offset-2 hover:text-ink"
      >
        {header}
        <span aria-hidden="true">{{ none: '', ascending: ' ↑', descending: ' ↓' }[order]}</span>
      </button>
    </div>
  )
}

interface RowProps<Row> {
  readonly row: Row | undefined
  readonly columns: ReadonlyArray<Column<Row>>
  readonly template: string
  readonly index: number
  readonly startPx: number
}

function PlainRow<Row>({ row, columns, template, index, startPx }: RowProps<Row>) {
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className="absolute inset-x-0 top-0 grid items-center border-b border-line contain-content last:border-b-0 hover:bg-sunken"
      style={{ height: ROW_PX, gridTemplateColumns: template, transform: `translateY(${startPx}px)` }}
    >
      {columns.map((column) => (
        <div key={column.name} role="cell" className={sideOf(column)}>
          {row === undefined ? <SkeletonText className="w-2/3" /> : column.cell(row)}
        </div>
      ))}
    </div>
  )
}

// `memo` drops the type parameter.
const VirtualRow = memo(PlainRow) as typeof PlainRow
