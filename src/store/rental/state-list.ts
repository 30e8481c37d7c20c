/**
 * States of rentals for `status in (…)`, from the table of states. They are literals, since PostgreSQL uses a partial index
 * only for values that it knows when it plans a statement.
 */
import { sql, type RawBuilder } from 'kysely'
import { statesWhere, type RentalStateRow } from '../../contract/rental-state.ts'

export function sqlStates(matches: (row: RentalStateRow) => boolean): RawBuilder<unknown> {
  return sql.join(statesWhere(matches).map((state) => sql.lit(state)))
}

/** A rental in these waits for one of the calls to its driver. */
export function callStates(...calls: ReadonlyArray<RentalStateRow['driverCall']>): RawBuilder<unknown> {
  return sqlStates(({ driverCall }) => calls.includes(driverCall))
}

export const livingStates = sqlStates(({ goal }) => goal !== 'gone')

/** A rental in these has an open segment. */
export const meteredStates = sqlStates(({ billing }) => billing !== 'none')

/** The machine of a rental in these is paid for, unless contact with it is lost. */
export const machineBilledStates = sqlStates(({ billing }) => billing === 'full' || billing === 'paused')

/** A rental in these is charged nothing after `seen_at`. */
export const pausedStates = sqlStates(({ billing }) => billing === 'paused')

export const diskStates = sqlStates(({ keepsDisk }) => keepsDisk)

/** A reserved rental cannot be stopped, so it lives in these alone. */
export const reservedStates = sqlStates(({ goal, keepsDisk }) => goal !== 'gone' && !keepsDisk)
