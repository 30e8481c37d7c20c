/**
 * States of rentals for `status in (…)`, from the table of states. They are literals, since PostgreSQL uses a partial index
 * only for values that it knows when it plans a statement.
 */
import { sql, type RawBuilder } from 'kysely'
import { statesWhere, type RentalStateRow } from '../../contract/rental-state.ts'

export function sqlStates(matches: (row: RentalStateRow) => boolean): RawBuilder<unknown> {
  return sql.join(statesWhere(matches).map((state) => sql.lit(state)))
}

/** In these a rental waits for one of the calls to its engine. */
export function callStates(...calls: ReadonlyArray<RentalStateRow['engineCall']>): RawBuilder<unknown> {
  return sqlStates(({ engineCall }) => calls.includes(engineCall))
}

export const livingStates = sqlStates(({ goal }) => goal !== 'gone')

/** In these a rental has an open segment. */
export const meteredStates = sqlStates(({ billing }) => billing !== 'none')

/** In these the machine is paid for, unless contact with it is lost. */
export const machineBilledStates = sqlStates(({ billing }) => billing === 'full' || billing === 'paused')

/** In these nothing is charged after `seen_at`. */
export const pausedStates = sqlStates(({ billing }) => billing === 'paused')

export const diskStates = sqlStates(({ keepsDisk }) => keepsDisk)

/** A reserved rental cannot be stopped, so it lives in these alone. */
export const reservedStates = sqlStates(({ goal, keepsDisk }) => goal !== 'gone' && !keepsDisk)
