/** A check of the ledger: an invariant as a query for its violations. */
import type { RawBuilder } from 'kysely'

export interface LedgerCheck {
  readonly name: string
  /** The rows it checks, to be counted. */
  readonly over: RawBuilder<unknown>
  /** Selects `subject` and `detail` of each violation. */
  readonly offending: RawBuilder<unknown>
}
