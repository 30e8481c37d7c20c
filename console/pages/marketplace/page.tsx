/** All marketplace machines. Filters and sorting are in the URL. */
import { getRouteApi } from '@tanstack/react-router'
import { useDeferredValue, useMemo, useState } from 'react'
import { marketplaceSorts, type MarketplaceSort } from '../../../src/contract/choices.ts'
import { count, number } from '../../../src/view/number.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { CheckField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { VirtualTable } from '../../ui/virtual-table.tsx'
import { LikeNotice } from '../rent/like-notice.tsx'
import { useLike, type Like } from '../rent/like.ts'
import { useOwnVolumes } from '../rent/mounts.tsx'
import { TemplateGallery, useTemplates } from '../rent/template.tsx'
import { columnsOf } from './column.tsx'
import { CompareDialog } from './compare.tsx'
import { FilterFields, type Change } from './filter.tsx'
import { GpuCards } from './gpu-card.tsx'
import { useMachine, useMachines, type MachineRow } from './machine.ts'
import { RentDialog } from '../rent/container.tsx'

const route = getRouteApi('/shell/marketplace')
/** Cheapest first. */
const DEFAULT_SORT: MarketplaceSort = 'price'

export function MarketplacePage() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const mayRent = useMay('compute:write')
  // Deferred: a request per key press would only be cancelled by the next one.
  const machines = useMachines(useDeferredValue(search))
  const counts = useCall('countMachines').data
  const { templates, chosen: template, isLoading } = useTemplates(search.template)
  useOwnVolumes()
  const again = useAgain(search.like)
  const [renting, setRenting] = useRenting(again, search.like)
  const [compared, setCompared] = useState<readonly MachineRow[]>([])
  const columns = useMemo(() => {
    const onCompare = (row: MachineRow): void => setCompared((rows) => toggle(rows, row))
    return columnsOf({ onRent: setRenting, mayRent, compared, onCompare })
  }, [mayRent, compared, setRenting])
  const change: Change = (part) =>
    void navigate({ search: (before) => ({ ...before, ...part }), replace: true, resetScroll: false })
  const { rows, error, retry } = machines
  return (
    <Page
      intro="Containers on machines of independent suppliers, priced per GPU-hour."
      actions={<ButtonLink to="/rent">Virtual machines and bare metal</ButtonLink>}
    >
      {error !== null && <ErrorNotice error={error} onRetry={retry} isRead />}
      {rows === undefined || counts === undefined || isLoading || again.isLoading ? (
        error === null && <Skeleton rows={14} />
      ) : (
        <>
          {again.like !== undefined && (
            <LikeNotice like={again.like} onDiscard={() => change({ like: undefined })}>
              {again.machine === undefined
                ? `${again.like.ordered.machine ?? 'Its machine'} has no room for it now: choose another machine.`
                : 'Choose any machine.'}
            </LikeNotice>
          )}
          <TemplateGallery templates={templates} chosen={template?.id} onChoose={(id) => change({ template: id })} />
          <GpuCards
            counts={counts}
            chosen={search.gpu}
            minVramGb={template?.minVramGb ?? 0}
            onChoose={(label) => change({ gpu: label })}
          />
          <FilterFields counts={counts} search={search} onChange={change} />
          <Offers rows={rows} machineCount={counts.machines} show={machines.show} change={change} columns={columns} />
        </>
      )}
      <Comparison machines={compared} onRent={mayRent ? setRenting : undefined} onClear={() => setCompared([])} />
      {renting !== undefined && (
        <RentDialog
          // The dialog keeps the chosen machine, with its current price.
          machine={rows?.find((row) => row?.id === renting.id) ?? renting}
          template={template}
          like={again.like}
          onClose={() => setRenting(undefined)}
        />
      )}
    </Page>
  )
}

interface Again {
  /** The container to rent again. */
  readonly like: Like | undefined
  /** The machine of that container, if it has room. */
  readonly machine: MachineRow | undefined
  readonly isLoading: boolean
}

function useAgain(rentalId: string | undefined): Again {
  const { like: rental, isLoading } = useLike(rentalId)
  const like = rental?.ordered.kind === 'container' ? rental : undefined
  const same = useMachine(like?.ordered.machine)
  const hasRoom = same.machine !== undefined && same.machine.gpusFree >= (like?.ordered.gpuCount ?? 1)
  return { like, machine: hasRoom ? same.machine : undefined, isLoading: isLoading || same.isLoading }
}

/** Opens the order at once when renting again, on the same machine if it has room. */
function useRenting({ like, machine }: Again, rentalId: string | undefined) {
  const state = useState<MachineRow>()
  const [openedFor, setOpenedFor] = useState<string>()
  if (like !== undefined && machine !== undefined && openedFor !== rentalId) {
    setOpenedFor(rentalId)
    state[1](machine)
  }
  return state
}

function toggle(rows: readonly MachineRow[], row: MachineRow): readonly MachineRow[] {
  return rows.some(({ id }) => id === row.id) ? rows.filter(({ id }) => id !== row.id) : [...rows, row]
}

interface OffersProps extends Pick<ReturnType<typeof useMachines>, 'show'> {
  readonly rows: NonNullable<ReturnType<typeof useMachines>['rows']>
  readonly machineCount: number
  readonly change: Change
  readonly columns: ReturnType<typeof columnsOf>
}

function Offers({ rows, machineCount, show, change, columns }: OffersProps) {
  const { gpu, free, price, region, text, sort = DEFAULT_SORT, down = false, each = false } = route.useSearch()
  const isFiltered = [gpu, free, price, region, text].some((value) => value !== undefined)
  const clear = (): void =>
    change({ gpu: undefined, free: undefined, price: undefined, region: undefined, text: undefined })
  const sortBy = (name: string): void => {
    const chosen = marketplaceSorts.find((one) => one === name) ?? DEFAULT_SORT
    const isDown = chosen === sort && !down
    change({ sort: chosen === DEFAULT_SORT && !isDown ? undefined : chosen, down: isDown ? true : undefined })
  }
  return (
    <>
      <div className="flex min-h-9 flex-wrap items-center gap-x-4 gap-y-1">
        <p role="status" className="flex-1 text-sm text-muted">
          {each
            ? `${isFiltered ? `${number(rows.length)} of ` : ''}${count(machineCount, 'machine')}`
            : `${count(rows.length, 'offer')} on ${count(machineCount, 'machine')}`}
        </p>
        {isFiltered && <Button onClick={clear}>Clear filters</Button>}
        <CheckField
          label="Group identical machines"
          checked={!each}
          onChange={(event) => change({ each: event.target.checked ? undefined : true })}
        />
      </div>
      <VirtualTable
        label="Machines"
        columns={columns}
        rows={rows}
        rowKey="id"
        onShow={show}
        sorting={{ name: sort, isDown: down }}
        onSort={sortBy}
        minWidth="75rem"
        shows={JSON.stringify([gpu, free, price, region, text, sort, down, each])}
        empty={<NoMachines isFiltered={isFiltered} onClear={clear} />}
      />
    </>
  )
}

interface ComparisonProps {
  readonly machines: readonly MachineRow[]
  readonly onRent: ((machine: MachineRow) => void) | undefined
  readonly onClear: () => void
}

function Comparison({ machines, onRent, onClear }: ComparisonProps) {
  const dialog = useDialog()
  const compare = (): void =>
    dialog.open((close) => {
      const rent = (machine: MachineRow): void => {
        close()
        onRent?.(machine)
      }
      return <CompareDialog machines={machines} onRent={onRent && rent} onClose={close} />
    })
  return (
    <>
      {machines.length > 0 && (
        <div className="sticky bottom-3 z-10 flex flex-wrap items-center gap-3 self-center rounded-lg border border-line bg-surface px-4 py-2 text-sm shadow-raised">
          {count(machines.length, 'machine')} selected
          <Button look="primary" disabled={machines.length < 2} onClick={compare}>
            Compare
          </Button>
          <Button look="quiet" onClick={onClear}>
            Clear selection
          </Button>
        </div>
      )}
      {dialog.shown}
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
