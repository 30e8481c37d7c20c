/** Current and ended rentals of every kind. */
import { getRouteApi } from '@tanstack/react-router'
import { rentalStates } from '../../../src/contract/rental-state.ts'
import type { OwnMachine } from '../../../src/view/own-machine.ts'
import { rentalKindLabels } from '../../../src/view/rental.ts'
import { useMay } from '../../api/me.ts'
import { choicesIn, choicesOf, FilterBar } from '../../list/filter.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { MachineTable } from './machine-table.tsx'
import { useOwnMachines } from '../rental/machine.ts'
import { EndedRentals } from './ended.tsx'
import type { rentalsSearch } from './search.ts'

const route = getRouteApi('/shell/rentals')

export function RentalsPage() {
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
  const mayRent = useMay('compute:write')
  return (
    <Page
      intro="Your virtual machines, bare metal and marketplace containers."
      actions={
        mayRent && (
          <>
            <ButtonLink to="/marketplace">Marketplace</ButtonLink>
            <ButtonLink to="/rent" look="primary">
              Rent a machine
            </ButtonLink>
          </>
        )
      }
    >
      <Tabs
        label="Rentals"
        tabs={{ current: 'Current', ended: 'Ended' }}
        chosen={tab ?? 'current'}
        onChoose={(name) => void navigate({ search: name === 'ended' ? { tab: name } : {} })}
      >
        {tab === 'ended' ? <EndedRentals /> : <CurrentRentals />}
      </Tabs>
    </Page>
  )
}

type Filter = ReturnType<typeof rentalsSearch>

function CurrentRentals() {
  const filter = route.useSearch()
  const navigate = route.useNavigate()
  const { machines, readMs, failed } = useOwnMachines()
  if (failed?.error) return <ErrorNotice error={failed.error} onRetry={() => void failed.refetch()} isRead />
  const matches = machines?.filter((machine) => fits(machine, filter))
  return (
    <div className="flex flex-col gap-4">
      <FilterBar
        label="Rentals"
        fields={[
          { name: 'find', label: 'Name or label' },
          { name: 'kind', label: 'Kind', choices: choicesIn(rentalKindLabels), any: 'All kinds' },
          { name: 'state', label: 'State', choices: states, any: 'All states' },
        ]}
        search={filter}
        onChange={(change) => void navigate({ search: (before) => ({ ...before, ...change }), replace: true })}
      />
      {machines === undefined || matches === undefined ? (
        <Skeleton rows={6} />
      ) : (
        <MachineTable
          label="Rentals"
          machines={matches}
          readMs={readMs}
          empty={<NoRentals isFiltered={machines.length > 0} />}
        />
      )}
    </div>
  )
}

const states = choicesOf(rentalStates.filter((state) => state !== 'Terminated'))

function NoRentals({ isFiltered }: { isFiltered: boolean }) {
  const navigate = route.useNavigate()
  if (isFiltered) {
    return (
      <Empty
        title="No rentals match"
        action={<Button onClick={() => void navigate({ search: {} })}>Show all rentals</Button>}
      />
    )
  }
  return (
    <Empty
      title="No rentals yet"
      action={
        <ButtonLink to="/rent" look="primary">
          Rent a machine
        </ButtonLink>
      }
    >
      Rent a virtual machine, bare metal, or a container on the marketplace. You pay by the millisecond, only while it
      runs.
    </Empty>
  )
}

function fits({ name, label, kind, status }: OwnMachine, filter: Filter): boolean {
  const text = filter.find?.toLowerCase() ?? ''
  return (
    (filter.kind === undefined || kind === filter.kind) &&
    (filter.state === undefined || status === filter.state) &&
    (text === '' || `${name} ${label ?? ''}`.toLowerCase().includes(text))
  )
}
