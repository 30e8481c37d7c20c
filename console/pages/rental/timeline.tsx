/** The states of a machine so far, and the possible next ones. */
import type { ReactNode } from 'react'
import type { EventRecord } from '../../../src/contract/event.ts'
import { rentalStates, rentalStateTable, type RentalState } from '../../../src/contract/rental-state.ts'
import { localTime } from '../../../src/view/time.ts'
import { eventDetail } from '../../../src/view/event.ts'
import { nextStatesHint } from '../../../src/view/next-states.ts'
import { RentalBadge } from '../../ui/badge.tsx'
import { cx } from '../../ui/class.ts'

export function RentalTimeline({ events, status }: { events: readonly EventRecord[]; status: RentalState }) {
  const moves = events.flatMap((event) => {
    const state = rentalStates.find((name) => rentalStateTable[name].events.includes(event.type))
    return state === undefined ? [] : [{ event, state }]
  })
  const next = nextStatesHint(status)
  return (
    <ol aria-label="Timeline" className="flex flex-col">
      {moves.toReversed().map(({ event, state }, index) => {
        const isLast = index === moves.length - 1
        return (
          <Step key={event.id} isNow={isLast}>
            <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
              <RentalBadge status={state} />
              <time dateTime={event.at} className="text-sm text-muted">
                {localTime(event.at)}
              </time>
            </div>
            {eventDetail(event) !== '' && <p className="text-sm text-muted">{eventDetail(event)}</p>}
            {isLast && <p className="text-sm">{rentalStateTable[status].meaning}</p>}
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
