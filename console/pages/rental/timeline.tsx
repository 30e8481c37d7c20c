/** The states of a machine so far, and the possible next ones. */
import type { ReactNode } from 'react'
import type { EventRecord } from '../../../src/contract/event.ts'
import type { EventType } from '../../../src/contract/event-type.ts'
import type { RentalState } from '../../../src/contract/rental.ts'
import { localTime } from '../../../src/view/time.ts'
import { eventDetail } from '../../../src/view/event.ts'
import { nextStatesHint, rentalStatusHints } from '../../../src/view/rental.ts'
import { RentalBadge } from '../../ui/badge.tsx'
import { cx } from '../../ui/class.ts'

/** The state after each event; other events do not change it. */
const stateAfter: Readonly<Partial<Record<EventType, RentalState>>> = {
  'rental.created': 'Pending',
  'rental.running': 'Running',
  'rental.unknown': 'Unknown',
  'rental.recovered': 'Running',
  'rental.stopping': 'Stopping',
  'rental.stopped': 'Stopped',
  'rental.starting': 'Starting',
  'rental.started': 'Running',
  'rental.start_failed': 'Stopping',
  'rental.failed': 'Failed',
  'rental.terminating': 'Terminating',
  'rental.terminated': 'Terminated',
}

export function RentalTimeline({ events, status }: { events: readonly EventRecord[]; status: RentalState }) {
  const steps = events.filter((event) => stateAfter[event.type] !== undefined).toReversed()
  const next = nextStatesHint(status)
  return (
    <ol aria-label="Timeline" className="flex flex-col">
      {steps.map((event, index) => {
        const state = stateAfter[event.type] ?? status
        const isLast = index === steps.length - 1
        return (
          <Step key={event.id} isNow={isLast}>
            <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
              <RentalBadge status={state} />
              <time dateTime={event.at} className="text-sm text-muted">
                {localTime(event.at)}
              </time>
            </div>
            {eventDetail(event) !== '' && <p className="text-sm text-muted">{eventDetail(event)}</p>}
            {isLast && <p className="text-sm">{rentalStatusHints[status]}</p>}
          </Step>
        )
      })}
      {next !== undefined && (
        <Step isNow={false}>
          <p className="text-sm text-muted">{next}</p>
        </Step>
      )}
    </ol>
  )
}

function Step({ isNow, children }: { isNow: boolean; children: ReactNode }) {
  return (
    <li
      aria-current={isNow ? 'step' : undefined}
      className="relative flex flex-col gap-1 border-l-2 border-line pb-4 pl-5 last:border-transparent last:pb-0"
    >
      <span
        aria-hidden="true"
        className={cx(
          'absolute top-1.5 -left-[7px] size-3 rounded-full border-2 bg-surface',
          isNow ? 'border-accent' : 'border-line-strong',
        )}
      />
      {children}
    </li>
  )
}
