/** The operator's fleet, one tab per list. */
import { getRouteApi } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useOperatorEvents } from '../../api/live-operator.ts'
import { Page } from '../../ui/page.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { FleetEngines } from './engines.tsx'
import { FleetHosts } from './hosts.tsx'
import { FleetImages } from './images.tsx'
import { FleetMachines } from './machines.tsx'
import { FleetPlacement } from './placement.tsx'
import { FleetRentals } from './rentals.tsx'
import type { FleetTab } from './search.ts'
import { FleetVolumes } from './volumes.tsx'

const route = getRouteApi('/shell/operator/fleet')

const tabs = [
  { name: 'machines', label: 'Machines' },
  { name: 'hosts', label: 'Hosts' },
  { name: 'engines', label: 'Engines' },
  { name: 'rentals', label: 'Rentals' },
  { name: 'volumes', label: 'Volumes' },
  { name: 'images', label: 'Base images' },
  { name: 'placement', label: 'Placement' },
] as const satisfies ReadonlyArray<{ name: FleetTab; label: string }>

const panels: Readonly<Record<FleetTab, () => ReactNode>> = {
  machines: () => <FleetMachines />,
  hosts: () => <FleetHosts />,
  engines: () => <FleetEngines />,
  rentals: () => <FleetRentals />,
  volumes: () => <FleetVolumes />,
  images: () => <FleetImages />,
  placement: () => <FleetPlacement />,
}

export function FleetPage() {
  const { tab = 'machines' } = route.useSearch()
  const navigate = route.useNavigate()
  useOperatorEvents()
  return (
    <Page intro="All machines, hosts, rentals and volumes, across all suppliers and accounts.">
      <Tabs label="Fleet" tabs={tabs} chosen={tab} onChoose={(name) => void navigate({ search: { tab: name } })}>
        {panels[tab]()}
      </Tabs>
    </Page>
  )
}
