/** A warning for stuck rentals. */
import { count } from '../../../src/view/number.ts'
import { span } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { TextLink } from '../../ui/button.tsx'
import { useNow } from '../../ui/now.ts'

const STUCK_NAMED = 3

/** Stuck rentals are rare and need attention, so they come first. */
export function StuckWarning() {
  const stuck = useCall('listAllRentals', { query: { stuck: true, limit: 100 } })
  const now = useNow()
  const rentals = stuck.data?.rentals ?? []
  if (rentals.length === 0) return null
  return (
    <section aria-labelledby="stuck" className="rounded-lg border border-warn bg-warn-soft px-4 py-3 text-sm">
      {/* The warning leaves out the times below, which a screen reader would announce every second. */}
      <div role="alert">
        <h2 id="stuck" className="font-semibold text-warn">
          {count(rentals.length, 'stuck rental')}
        </h2>
      </div>
      <ul className="mt-1">
        {rentals.slice(0, STUCK_NAMED).map((rental) => (
          <li key={rental.id}>
            {rental.name} of {rental.accountName}: {rental.status} for {span(now - Date.parse(rental.statusSince))}
          </li>
        ))}
      </ul>
      <p className="mt-1">
        <TextLink to="/operator/fleet" search={{ tab: 'rentals' }}>
          View stuck rentals
        </TextLink>
      </p>
    </section>
  )
}
