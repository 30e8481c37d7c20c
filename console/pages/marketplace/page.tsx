/** All marketplace machines. Filters and sorting are in the URL. */
import { getRouteApi } from '@tanstack/react-router'
import { useDeferredValue, useMemo, useState } from 'react'
import { marketplaceSorts, type MarketplaceSort } from '../../../src/contract/choices.ts'
import { count, number } from '../../../src/view/number.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { CheckField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { VirtualTable } from '../../ui/virtual-table.tsx'
import { LikeNotice } from '../rent/like-notice.tsx'
import { useLike } from '../rent/like.ts'
import { useOwnVolumes } from '../rent/mounts.tsx'
import { TemplateGallery, useTemplates } from '../rent/template.tsx'
import { columnsOf } from './column.tsx'
import { CompareDialog } from './compare.tsx'
import { FilterFields, type Change } from './filter.tsx'
import { GpuCards } from './gpu-card.tsx'
import { useMachine, useMachines, type MachineRow } from './machine.ts'
import { RentDialog } from './rent.tsx'

const route = getRouteApi('/shell/marketplace')
/** Cheapest first. */
const DEFAULT_SORT: MarketplaceSort = 'price'

export function MarketplacePage() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [renting, setRenting] = useState<MachineRow | undefined>()
  const mayRent = useMay('compute:write')
  const { gpu, free, price, region, text, sort = DEFAULT_SORT, down = false, each = false } = search
  // A request for each key pressed would only be cancelled by the next one.
  const { rows, error, retry, show } = useMachines(useDeferredValue(search))
  const counts = useCall('countMachines').data
  const { templates, chosen: template, isLoading } = useTemplates(search.template)
  useOwnVolumes()
  const { like: found, isLoading: isLikeLoading } = useLike(search.like)
  const like = found?.ordered.kind === 'container' ? found : undefined
  const { machine: same, isLoading: isSameLoading } = useMachine(like?.ordered.machine)
  const isSameFree = same !== undefined && same.gpusFree >= (like?.ordered.gpuCount ?? 1)
  // Renting again opens the order at once, on the same machine if it has room.
  const [opened, setOpened] = useState<string>()
  if (like !== undefined && isSameFree && opened !== search.like) {
    setOpened(search.like)
    setRenting(same)
  }
  const [compared, setCompared] = useState<readonly MachineRow[]>([])
  const [isComparing, setComparing] = useState(false)
  const columns = useMemo(() => {
    const toggle = (row: MachineRow): void =>
      setCompared((all) =>
        all.some(({ id }) => id === row.id) ? all.filter(({ id }) => id !== row.id) : [...all, row],
      )
    return columnsOf({ onRent: setRenting, mayRent, compared, onCompare: toggle })
  }, [mayRent, compared])

  const change: Change = (changed) =>
    void navigate({ search: (before) => ({ ...before, ...changed }), replace: true, resetScroll: false })
  const clear = (): void =>
    change({ gpu: undefined, free: undefined, price: undefined, region: undefined, text: undefined })
  const sortBy = (name: string): void => {
    const chosen = marketplaceSorts.find((one) => one === name) ?? DEFAULT_SORT
    const turn = chosen === sort && !down
    change({ sort: chosen === DEFAULT_SORT && !turn ? undefined : chosen, down: turn ? true : undefined })
  }
  const isFiltered = [gpu, free, price, region, text].some((value) => value !== undefined)
  return (
    <Page
      intro="Containers on machines of independent suppliers, priced per GPU-hour."
      actions={<ButtonLink to="/rent">Virtual machines and bare metal</ButtonLink>}
    >
      {error !== null && <ErrorNotice error={error} onRetry={retry} isRead />}
      {rows === undefined || counts === undefined || isLoading || isLikeLoading || isSameLoading ? (
        error === null && <Skeleton rows={14} />
      ) : (
        <>
          {like !== undefined && (
            <LikeNotice like={like} onDiscard={() => change({ like: undefined })}>
              {isSameFree
                ? 'Choose any machine.'
                : `${like.ordered.machine ?? 'Its machine'} has no room for it now: choose another machine.`}
            </LikeNotice>
          )}
          <TemplateGallery templates={templates} chosen={template?.id} onChoose={(id) => change({ template: id })} />
          <GpuCards
            counts={counts}
            chosen={gpu}
            minVramGb={template?.minVramGb ?? 0}
            onChoose={(label) => change({ gpu: label })}
          />
          <FilterFields counts={counts} search={search} onChange={change} />
          <div className="flex min-h-9 flex-wrap items-center gap-x-4 gap-y-1">
            <p role="status" className="flex-1 text-sm text-muted">
              {each
                ? `${isFiltered ? `${number(rows.length)} of ` : ''}${count(counts.machines, 'machine')}`
                : `${count(rows.length, 'offer')} on ${count(counts.machines, 'machine')}`}
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
      )}
      {compared.length > 0 && (
        <div className="sticky bottom-3 z-10 flex flex-wrap items-center gap-3 self-center rounded-lg border border-line bg-surface px-4 py-2 text-sm shadow-raised">
          {count(compared.length, 'machine')} selected
          <Button look="primary" disabled={compared.length < 2} onClick={() => setComparing(true)}>
            Compare
          </Button>
          <Button look="quiet" onClick={() => setCompared([])}>
            Clear selection
          </Button>
        </div>
      )}
      {isComparing && (
        <CompareDialog
          machines={compared}
          onRent={
            mayRent
              ? (machine) => {
                  setComparing(false)
                  setRenting(machine)
                }
              : undefined
          }
          onClose={() => setComparing(false)}
        />
      )}
      {renting !== undefined && (
        <RentDialog
          // The dialog keeps the chosen machine, with its current price.
          machine={rows?.find((row) => row?.id === renting.id) ?? renting}
          template={template}
          like={like}
          onClose={() => setRenting(undefined)}
        />
      )}
    </Page>
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
