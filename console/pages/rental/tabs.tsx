/** The tabs of a rental's page. */
import type { ReactNode } from 'react'
import type { EventRecord } from '../../../src/contract/event.ts'
import type { RentalState } from '../../../src/contract/rental-state.ts'
import { isReachable } from '../../../src/domain/rental.ts'
import { Tabs } from '../../ui/tabs.tsx'
import { EventList } from '../events/list.tsx'
import { RentalLogs } from './logs.tsx'
import { RentalMetrics } from './metrics.tsx'
import type { RentalTab } from './search.ts'
import { RentalTerminal } from './terminal.tsx'

const labels: Readonly<Record<RentalTab, string>> = {
  state: 'Overview',
  metrics: 'Metrics',
  terminal: 'Terminal',
  logs: 'Logs',
  volumes: 'Volumes',
  events: 'Events',
}

interface RentalTabsProps {
  readonly id: string
  readonly status: RentalState
  readonly events: readonly EventRecord[]
  readonly state: ReactNode
  readonly volumes: ReactNode
  /** From the URL. */
  readonly tab: RentalTab | undefined
  readonly onChoose: (search: { tab?: RentalTab }) => void
}

export function RentalTabs({ id, status, events, state, volumes, tab = 'state', onChoose }: RentalTabsProps) {
  const isRunning = isReachable(status)
  const panels: Readonly<Record<RentalTab, ReactNode>> = {
    state,
    metrics: <RentalMetrics id={id} isRunning={isRunning} />,
    terminal: <RentalTerminal id={id} isRunning={isRunning} />,
    logs: <RentalLogs id={id} />,
    volumes,
    events: <EventList label="Events of this rental" events={events} empty={null} hideSubject />,
  }
  return (
    <Tabs
      label="About this rental"
      tabs={labels}
      chosen={tab}
      onChoose={(next) => onChoose(next === 'state' ? {} : { tab: next })}
    >
      {panels[tab]}
    </Tabs>
  )
}
