/**
 * Makers of table columns. A value is read by the name of a field, which must exist in the row and have the right type,
 * or by a function. null shows as a dash.
 */
import type { ReactNode } from 'react'
import { number } from '../../src/view/number.ts'
import type { Usd } from '../../src/view/money.ts'
import { localDate, localTime, relativeTime } from '../../src/view/time.ts'
import type { Tone } from '../../src/view/tone.ts'
import { Badge } from '../ui/badge.tsx'
import { Button, TextLink } from '../ui/button.tsx'
import { cx } from '../ui/class.ts'
import { Money } from '../ui/money.tsx'
import { useNow } from '../ui/now.ts'
import type { Column, FieldOf } from '../ui/table.tsx'

export type Columns<Row> = ReadonlyArray<Column<Row>>

type Read<Row, Value> = FieldOf<Row, Value> | ((row: Row) => Value)

interface ColumnOptions extends Pick<Column<never>, 'align' | 'wideOnly' | 'width'> {
  /** Classes of the cell's content. */
  readonly className?: string
  /** The header is for screen readers only. */
  readonly hideHeader?: boolean
}

function valueOf<Row, Value>(row: Row, read: Read<Row, Value>): Value {
  return typeof read === 'function' ? read(row) : (row[read] as Value)
}

function column<Row, Value>(
  header: string,
  read: Read<Row, Value | null>,
  { className, hideHeader = false, ...options }: ColumnOptions,
  show: (value: Value) => ReactNode,
): Column<Row> {
  return {
    name: header,
    header: hideHeader ? <span className="sr-only">{header}</span> : header,
    ...options,
    cell: (row) => {
      const value = valueOf(row, read)
      const content = value === null ? '—' : show(value)
      return className === undefined ? content : <span className={className}>{content}</span>
    },
  }
}

export function textColumn<Row>(header: string, read: Read<Row, ReactNode>, options: ColumnOptions = {}): Column<Row> {
  return column<Row, ReactNode>(header, read, options, (value) => value)
}

export function numberColumn<Row>(
  header: string,
  read: Read<Row, number | null>,
  options: ColumnOptions = {},
): Column<Row> {
  return column<Row, number>(header, read, { align: 'right', ...options }, number)
}

export function moneyColumn<Row>(
  header: string,
  read: Read<Row, Usd | null>,
  options: ColumnOptions = {},
): Column<Row> {
  return column<Row, Usd>(header, read, { align: 'right', ...options }, (usd) => <Money usd={usd} />)
}

/** Date and time. */
export function timeColumn<Row>(
  header: string,
  read: Read<Row, string | null>,
  options: ColumnOptions = {},
): Column<Row> {
  const { className } = options
  return column<Row, string>(header, read, { ...options, className: cx('whitespace-nowrap', className) }, localTime)
}

/** The date, with the time as a tooltip. */
export function dateColumn<Row>(
  header: string,
  read: Read<Row, string | null>,
  options: ColumnOptions = {},
): Column<Row> {
  return column<Row, string>(header, read, options, (at) => (
    <span className="whitespace-nowrap" title={localTime(at)}>
      {localDate(at)}
    </span>
  ))
}

/** "5 minutes ago", kept current, with the time as a tooltip. */
export function agoColumn<Row>(
  header: string,
  read: Read<Row, string | null>,
  { never = '—', ...options }: ColumnOptions & { readonly never?: string } = {},
): Column<Row> {
  return column<Row, string>(
    header,
    (row) => valueOf(row, read) ?? '',
    options,
    (at) => (at === '' ? never : <Ago at={at} />),
  )
}

export function Ago({ at }: { at: string }) {
  const now = useNow()
  return (
    <time dateTime={at} title={localTime(at)} className="whitespace-nowrap">
      {relativeTime(at, now)}
    </time>
  )
}

/** A label with its tone, from the tables in `src/view/`. */
type Label =
  | readonly [label: string, tone: Tone]
  | { readonly label: string; readonly tone?: Tone; readonly hint?: string | undefined }

export function badgeColumn<Row>(
  header: string,
  labelOf: (row: Row) => Label,
  options: ColumnOptions = {},
): Column<Row> {
  return column<Row, Label>(header, labelOf, options, (label) => <LabelBadge of={label} />)
}

export function LabelBadge({ of }: { of: Label }) {
  const { label, tone = 'plain', hint } = 'label' in of ? of : { label: of[0], tone: of[1], hint: undefined }
  const badge = <Badge tone={tone}>{label}</Badge>
  return hint === undefined ? badge : <span title={hint}>{badge}</span>
}

/** A link to the operator's page of an account. */
export function accountColumn<Row extends { readonly accountId: string | null; readonly accountName: string | null }>(
  options: ColumnOptions = {},
): Column<Row> {
  return column<Row, ReactNode>('Account', accountLink, options, (link) => link)
}

function accountLink({ accountId, accountName }: { accountId: string | null; accountName: string | null }): ReactNode {
  if (accountId === null) return null
  return (
    <TextLink to="/operator/accounts/$id" params={{ id: accountId }}>
      {accountName}
    </TextLink>
  )
}

/** The last column: buttons of the row. */
export function actionsColumn<Row>(cell: (row: Row) => ReactNode, options: ColumnOptions = {}): Column<Row> {
  return {
    name: 'Actions',
    header: <span className="sr-only">Actions</span>,
    align: 'right',
    ...options,
    cell: (row) => <span className="inline-flex gap-2">{cell(row)}</span>,
  }
}

interface ActionOptions<Row> extends ColumnOptions {
  readonly look?: 'quiet'
  readonly disabledReason?: (row: Row) => string | undefined
}

/** One button per row: `Revoke`, for screen readers `Revoke laptop`. */
export function actionColumn<Row>(
  label: string,
  nameOf: (row: Row) => string,
  onPress: (row: Row) => void,
  { look, disabledReason, ...options }: ActionOptions<Row> = {},
): Column<Row> {
  return actionsColumn(
    (row) => (
      <Button
        look={look ?? 'secondary'}
        aria-label={`${label} ${nameOf(row)}`}
        disabledReason={disabledReason?.(row)}
        onClick={() => onPress(row)}
      >
        {label}
      </Button>
    ),
    options,
  )
}
