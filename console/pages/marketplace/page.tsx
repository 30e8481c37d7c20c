/** All marketplace machines. Filters and sorting are in the URL and applied in the browser, without requests. */
import { getRouteApi } from '@tanstack/react-router'
import { useDeferredValue, useMemo, useState } from 'react'
import { count, number } from '../../../src/view/number.ts'
import { useMay } from '../../api/me.ts'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { VirtualTable } from '../../ui/table.tsx'
import { columnsOf } from './column.tsx'
import { FilterFields, type Change } from './filter.tsx'
import { filterMachines, sortMachines, useMachines, type MachineRow, type SortName } from './machine.ts'
import { RentDialog } from './rent.tsx'

const route = getRouteApi('/shell/marketplace')
/** Cheapest first. */
const DEFAULT_SORT: SortName = 'price'

export function MarketplacePage() {
  const { rows, isReading, error, retry } = useMachines()
  return (
    <Page
      intro="Containers on machines of independent suppliers, priced per GPU-hour. Click a column header to sort."
      actions={<ButtonLink to="/rent">Virtual machines and bare metal</ButtonLink>}
    >
      {rows !== undefined ? (
        <MachineList rows={rows} isReading={isReading} />
      ) : error !== null ? (
        <ErrorNotice error={error} onRetry={retry} isRead />
      ) : (
        <Skeleton rows={14} />
      )}
      {rows !== undefined && error !== null && <ErrorNotice error={error} onRetry={retry} isRead />}
    </Page>
  )
}

function MachineList({ rows, isReading }: { rows: readonly MachineRow[]; isReading: boolean }) {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [renting, setRenting] = useState<MachineRow | undefined>()
  const mayRent = useMay('compute:write')
  const { gpu, free, price, region, sort = DEFAULT_SORT, down = false } = search
  // Filtering thousands of rows must not delay typing.
  const text = useDeferredValue(search.text)
  const fitting = useMemo(
    () => filterMachines(rows, { gpu, free, price, region, text }),
    [rows, gpu, free, price, region, text],
  )
  const shown = useMemo(() => sortMachines(fitting, sort, down), [fitting, sort, down])
  const columns = useMemo(() => columnsOf(setRenting, mayRent), [mayRent])

  const change: Change = (changed) =>
    void navigate({ search: (before) => ({ ...before, ...changed }), replace: true, resetScroll: false })
  const clear = (): void =>
    change({ gpu: undefined, free: undefined, price: undefined, region: undefined, text: undefined })
  const sortBy = (name: string): void => {
    const chosen = name as SortName
    const turn = chosen === sort && !down
    change({ sort: chosen === DEFAULT_SORT && !turn ? undefined : chosen, down: turn ? true : undefined })
  }
  const isFiltered = [gpu, free, price, region, search.text].some((value) => value !== undefined)
  return (
    <>
      <FilterFields rows={rows} search={search} onChange={change} />
      <div className="flex min-h-9 flex-wrap items-center justify-between gap-2">
        <p role="status" className="text-sm text-muted">
          {isFiltered ? `${number(shown.length)} of ${count(rows.length, 'machine')}` : count(rows.length, 'machine')}
          {isReading && ', loading more …'}
        </p>
        {isFiltered && <Button onClick={clear}>Clear filters</Button>}
      </div>
      <VirtualTable
        label="Machines"
        columns={columns}
        rows={shown}
        rowKey={idOf}
        sorting={{ name: sort, isDown: down }}
        onSort={sortBy}
        minWidth="63rem"
        shows={JSON.stringify([gpu, free, price, region, text, sort, down])}
        empty={<NoMachines isFiltered={isFiltered} onClear={clear} />}
      />
      {renting !== undefined && (
        <RentDialog machine={atPriceNow(renting, rows)} onClose={() => setRenting(undefined)} />
      )}
    </>
  )
}

function NoMachines({ isFiltered, onClear }: { isFiltered: boolean; onClear: () => void }) {
  if (isFiltered) {
    return (
      <Empty title="No machines match" action={<Button onClick={onClear}>Show all machines</Button>}>
        Try fewer GPUs, another model or region, or a higher price.
      </Empty>
    )
  }
  return (
    <Empty title="No machines available" action={<ButtonLink to="/rent">Virtual machines and bare metal</ButtonLink>}>
      Machines appear here when suppliers add them.
    </Empty>
  )
}

/** The dialog keeps the chosen machine, with its current price. */
function atPriceNow(machine: MachineRow, rows: readonly MachineRow[]): MachineRow {
  const { pricePerGpu } = rows.find(({ id }) => id === machine.id) ?? machine
  return { ...machine, pricePerGpu }
}

function idOf(row: MachineRow): string {
  return row.id
}
