/** Tells customers 7, 2 and 1 days before a reserved term ends, once each. */
import { formatInstant, MINUTE_MS } from '../base/instant.ts'
import type { App } from '../app/app.ts'
import { recordRentalEvent } from '../app/rental/rental-event.ts'
import { dueTermWarning } from '../domain/term-warning.ts'
import { transact, type Tx } from '../store/platform/database.ts'
import { findRental } from '../store/rental/rental.ts'
import { listEndingTerms, setTermWarned, type EndingTerm } from '../store/rental/term-warning.ts'
import { eachOf, type Reconciler } from './loop.ts'

const BATCH = 200
const WIDTH = 4

export function warnTerms(app: App): Reconciler {
  return {
    name: 'warn-terms',
    everyMs: MINUTE_MS,
    run: async () => {
      const terms = await listEndingTerms(app.database.db, app.clock.now(), BATCH)
      await eachOf(terms, WIDTH, (term) => transact(app.database, (tx) => warnOne(tx, term)))
      return terms.length === BATCH
    },
  }
}

async function warnOne(tx: Tx, term: EndingTerm): Promise<void> {
  const days = dueTermWarning(term.endsAt, term.warnedDays, tx.clock.now())
  const rental = await findRental(tx.db, term.rentalId)
  if (days === undefined || rental === undefined) return
  // Two servers may look at once: only the one that changes the mark records the event.
  if (!(await setTermWarned(tx, term, days))) return
  recordRentalEvent(tx, rental, 'rental.term_expiring', {
    days,
    endsAt: formatInstant(term.endsAt),
    converts: rental.convert_on_expiry !== false,
  })
}
