/**
 * Tables that read their rows: `ListTable` a whole list, `PagedTable` a list in pages. They show a skeleton, an error
 * with a retry, the rows, or the next step when there are none.
 */
import type { ReactNode } from 'react'
import type { CallableId, CallInput, Reply } from '../../src/client/client.ts'
import { useCall } from '../api/query.ts'
import { Answer } from '../ui/answer.tsx'
import { Pager, usePages, PAGE_ROWS } from '../ui/pager.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { Table, type TableProps } from '../ui/table.tsx'
import { VirtualTable } from '../ui/virtual-table.tsx'

interface ReadProps<Op extends CallableId, Row> extends Omit<TableProps<Row>, 'rows'> {
  readonly call: Op
  readonly rows: (reply: Reply<Op>) => readonly Row[]
  /** Polls, for rows that raise no events. */
  readonly everyMs?: number
  /** For long rows lists: renders only the visible ones, at a fixed height. */
  readonly virtual?: boolean
  /** About as tall as the table. */
  readonly skeleton?: number | ReactNode
}

interface ListTableProps<Op extends CallableId, Row> extends ReadProps<Op, Row> {
  readonly input?: CallInput<Op>
  /** Under the rows, when they are there. */
  readonly after?: ReactNode
}

export function ListTable<Op extends CallableId, Row>(props: ListTableProps<Op, Row>) {
  const { call, input, rows, everyMs, virtual = false, skeleton = 4, after, ...table } = props
  const list = useCall(call, input, { everyMs })
  const Rows = virtual ? VirtualTable<Row> : Table<Row>
  return (
    <Answer of={list} skeleton={typeof skeleton === 'number' ? <Skeleton rows={skeleton} /> : skeleton}>
      {(reply) => (
        <>
          <Rows {...table} rows={rows(reply)} />
          {after}
        </>
      )}
    </Answer>
  )
}

/** Lists with a cursor. In OpenAI's form it is the id of the last row. */
type Page = { readonly nextCursor: string | null } | { readonly has_more: boolean; readonly last_id: string | null }
type PagedId = { [Op in CallableId]: Reply<Op> extends Page ? Op : never }[CallableId]

type Query<Op extends CallableId> = Omit<NonNullable<CallInput<Op>['query']>, 'limit' | 'cursor' | 'after'>

function nextCursorOf(page: Page): string | null {
  if ('nextCursor' in page) return page.nextCursor
  return page.has_more ? page.last_id : null
}

interface PagedTableProps<Op extends PagedId, Row> extends ReadProps<Op, Row> {
  readonly params?: CallInput<Op>['params']
  /** The filter. A changed one starts at the first page. */
  readonly query?: Query<Op>
  readonly pageRows?: number
  /** The field of the query that takes the cursor. */
  readonly cursorField?: 'cursor' | 'after'
  /** A note about all pages, from the reply. */
  readonly above?: (reply: Reply<Op>) => ReactNode
}

export function PagedTable<Op extends PagedId, Row>(props: PagedTableProps<Op, Row>) {
  const {
    call,
    params,
    query,
    rows,
    everyMs,
    virtual = false,
    skeleton = 8,
    pageRows = PAGE_ROWS,
    cursorField = 'cursor',
    above,
    ...table
  } = props
  const pages = usePages(JSON.stringify([params, query]))
  const page = { ...query, limit: pageRows, ...(pages.cursor === undefined ? {} : { [cursorField]: pages.cursor }) }
  const input = { ...(params === undefined ? {} : { params }), query: page } as unknown as CallInput<Op>
  const list = useCall(call, input, { everyMs, keepsLast: true })
  const Rows = virtual ? VirtualTable<Row> : Table<Row>
  return (
    <Answer of={list} skeleton={typeof skeleton === 'number' ? <Skeleton rows={skeleton} /> : skeleton}>
      {(reply) => (
        <div className="flex flex-col gap-4">
          {above?.(reply)}
          <Rows {...table} rows={rows(reply)} />
          <Pager pages={pages} nextCursor={nextCursorOf(reply)} />
        </div>
      )}
    </Answer>
  )
}
