/**
 * States of rentals for `status in (…)`, from the table of states. They are literals, since PostgreSQL uses a partial index
 * only for values that it knows when it plans a statement.
 */
import { sql, type RawBuilder } from 'kysely'
import { statesWhere, type RentalStateRow } from '../../contract/rental-state.ts'

export function sqlStates(matches: (row: RentalStateRow) => boolean): RawBuilder<unknown> {
  return sql.join(statesWhere(matches).map((state) => sql.lit(state)))
}

/** The states in which a rental waits for one of these driver calls. */
export function callStates(...calls: ReadonlyArray<RentalStateRow['driverCall']>): RawBuilder<unknown> {
  return sqlStates(({ driverCall }) => calls.includes(driverCall))
}

export const livingStates = sqlStates(({ goal }) => goal !== 'gone')

/** The states in which a rental has an open segment. */
export const meteredStates = sqlStates(({ billing }) => billing !== 'none')

/** The states in which the machine is paid for, unless contact with it is lost. */
export const machineBilledStates = sqlStates(({ billing }) => billing === 'full' || billing === 'paused')

/** The states in which nothing is charged after `seen_at`. */
export const pausedStates = sqlStates(({ billing }) => billing === 'paused')

export const diskStates = sqlStates(({ keepsDisk }) => keepsDisk)

/** The living states of a reserved rental, which cannot be stopped. */
export const reservedStates = sqlStates(({ goal, keepsDisk }) => goal !== 'gone' && !keepsDisk)
