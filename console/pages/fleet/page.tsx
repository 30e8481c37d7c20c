/** The operator's fleet, one tab per list. */
import { getRouteApi } from '@tanstack/react-router'
import type { ComponentType } from 'react'
import { useOperatorEvents } from '../../api/live-operator.ts'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { GpuBand, useGpuSummary } from './band.tsx'
import { FleetClusters } from './clusters.tsx'
import { FleetEngines } from './engines.tsx'
import { FleetHosts } from './hosts.tsx'
import { FleetImages } from './images.tsx'
import { FleetMachines } from './machines.tsx'
import { FleetPlacement } from './placement.tsx'
import { FleetRentals } from './rentals.tsx'
import type { FleetTab } from './search.ts'
import { FleetVolumes } from './volumes.tsx'

const route = getRouteApi('/shell/operator/fleet')

const tabs: Readonly<Record<FleetTab, string>> = {
  machines: 'Machines',
  hosts: 'Hosts',
  clusters: 'Clusters',
  engines: 'Engines',
  rentals: 'Rentals',
  volumes: 'Volumes',
  images: 'Base images',
  placement: 'Placement',
}

const panels: Readonly<Record<FleetTab, ComponentType>> = {
  machines: FleetMachines,
  hosts: FleetHosts,
  clusters: FleetClusters,
  engines: FleetEngines,
  rentals: FleetRentals,
  volumes: FleetVolumes,
  images: FleetImages,
  placement: FleetPlacement,
}

export function FleetPage() {
  const { tab = 'machines' } = route.useSearch()
  const navigate = route.useNavigate()
  const Panel = panels[tab]
  useOperatorEvents()
  const summary = useGpuSummary()
  return (
    <Page intro="All machines, hosts, rentals and volumes, across all suppliers and accounts.">
      {/* The tabs wait for what is above them, so that they do not move. */}
      {summary.isPending ? (
        <Skeleton rows={12} />
      ) : (
        <>
          <GpuBand gpuModels={summary.data?.gpuModels ?? []} />
          <Tabs label="Fleet" tabs={tabs} chosen={tab} onChoose={(name) => void navigate({ search: { tab: name } })}>
            <Panel />
          </Tabs>
        </>
      )}
    </Page>
  )
}
