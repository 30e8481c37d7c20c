/** In place of the shell for as long as it is not known who is signed in. */
import { Skeleton } from '../ui/skeleton.tsx'

export function Pending() {
  return (
    <main className="mx-auto w-full max-w-7xl p-4 sm:p-6">
      <Skeleton rows={6} />
    </main>
  )
}
