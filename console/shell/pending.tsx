/** Shown while the session is checked. */
import { Skeleton } from '../ui/skeleton.tsx'

export function Pending() {
  return (
    <main className="mx-auto w-full max-w-7xl p-4 sm:p-6">
      <Skeleton rows={6} />
    </main>
  )
}
