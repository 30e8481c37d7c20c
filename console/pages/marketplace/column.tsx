/** Columns of the marketplace, most important first: narrow screens show the first three. */
import type { ReactNode } from 'react'
import { count, number } from '../../../src/view/number.ts'
import { money } from '../../../src/view/money.ts'
import { missingScope } from '../../api/me.ts'
import { Button } from '../../ui/button.tsx'
import type { Column } from '../../ui/table.tsx'
import { MAX_COMPARED } from './compare.tsx'
import type { MachineRow } from './machine.ts'

interface ColumnOptions {
  readonly onRent: (row: MachineRow) => void
  readonly mayRent: boolean
  readonly compared: readonly MachineRow[]
  readonly onCompare: (row: MachineRow) => void
}

/** The caller memoizes the result, so that visible rows do not render again. */
export function columnsOf({ onRent, mayRent, compared, onCompare }: ColumnOptions): ReadonlyArray<Column<MachineRow>> {
  return [
    textColumn('gpu', 'GPU', 'minmax(10.5rem, 1.5fr)', (row) => (
      <TwoLines
        first={row.gpu}
        second={row.identicalMachines === 1 ? row.id : `${number(row.identicalMachines)} identical machines`}
      />
    )),
    amountColumn('price', <Named name="Price" more=" per GPU-hour" />, '5.25rem', (row) => (
      <span className="font-medium">{money(row.pricePerGpu)}</span>
    )),
    amountColumn('free', 'Free', '4.75rem', (row) => (
      <span
        className={row.gpusFree === 0 ? 'text-muted' : ''}
        title={row.identicalMachines === 1 ? undefined : `${number(row.identicalGpusFree)} on all of them`}
      >{`${row.gpusFree} of ${row.gpusTotal}`}</span>
    )),
    amountColumn('vram', 'VRAM', '4.75rem', (row) => `${number(row.vramGb)} GB`),
    {
      name: 'uptime',
      header: <Named name="Reliability" more=": share of the last 30 days online" />,
      width: '5.75rem',
      align: 'right',
      cell: ({ uptimePercent }) => (uptimePercent === null ? <Unknown /> : `${uptimePercent} %`),
    },
    {
      name: 'cuda',
      header: 'CUDA',
      width: '4.5rem',
      align: 'right',
      cell: ({ cudaVersion }) => cudaVersion ?? <Unknown />,
    },
    textColumn('cpu', 'CPU', 'minmax(7rem, 1fr)', (row) => (
      <TwoLines first={count(row.cpuCores, 'core')} second={row.cpuModel} />
    )),
    amountColumn('ram', 'RAM', '6rem', (row) => `${number(row.ramGb)} GB`),
    amountColumn('disk', 'Disk', '6.75rem', (row) => `${number(row.storageGb)} GB`),
    textColumn('region', 'Region', 'minmax(5.5rem, 0.8fr)', (row) => (
      <TwoLines first={row.region} second={row.clusterName} />
    )),
    textColumn('supplier', 'Supplier', 'minmax(6rem, 1fr)', (row) => (
      <span title={row.supplierId}>{row.supplierId}</span>
    )),
    {
      name: 'compare',
      header: <span className="sr-only">Compare</span>,
      width: '3rem',
      cell: (row) => (
        <input
          type="checkbox"
          aria-label={`Compare ${row.id}`}
          title="Compare"
          checked={compared.some(({ id }) => id === row.id)}
          disabled={compared.length >= MAX_COMPARED && !compared.some(({ id }) => id === row.id)}
          onChange={() => onCompare(row)}
          className="size-4 align-middle accent-accent"
        />
      ),
    },
    {
      name: 'rent',
      header: <span className="sr-only">Rent</span>,
      width: '5.25rem',
      isPinned: true,
      cell: (row) => <RentButton row={row} mayRent={mayRent} onRent={onRent} />,
    },
  ]
}

type Cell = (row: MachineRow) => ReactNode

function textColumn(name: string, header: string, width: string, cell: Cell): Column<MachineRow> {
  return { name, header, width, cell, sortable: true }
}

function amountColumn(name: string, header: ReactNode, width: string, cell: Cell): Column<MachineRow> {
  return { name, header, width, cell, sortable: true, align: 'right' }
}

interface RentButtonProps {
  readonly row: MachineRow
  readonly mayRent: boolean
  readonly onRent: (row: MachineRow) => void
}

function RentButton({ row, mayRent, onRent }: RentButtonProps) {
  const why = !mayRent
    ? missingScope('compute:write')
    : row.gpusFree === 0 && row.gpusAfterWait === null
      ? 'No free GPUs'
      : undefined
  return (
    <Button aria-label={`Rent ${row.id}`} disabledReason={why} onClick={() => onRent(row)}>
      Rent
    </Button>
  )
}

function Unknown() {
  return <span className="text-muted">—</span>
}

/** A short text on screen, and the complete one for screen readers. */
function Named({ name, more }: { name: string; more: string }) {
  return (
    <>
      {name}
      <span className="sr-only">{more}</span>
    </>
  )
}

function TwoLines({ first, second }: { first: string; second: string }) {
  return (
    <span className="block leading-tight" title={second}>
      <span className="block truncate">{first}</span>
      <span className="block truncate text-xs text-muted">{second}</span>
    </span>
  )
}
