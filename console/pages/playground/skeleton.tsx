/** Shown while models load. */
import { Skeleton } from '../../ui/skeleton.tsx'

export function PlaygroundSkeleton() {
  return (
    <div className="grid gap-5 lg:grid-cols-[minmax(0,1fr)_20rem]">
      <Skeleton rows={10} className="rounded-lg border border-line bg-surface p-4" />
      <Skeleton rows={8} className="rounded-lg border border-line bg-surface p-4" />
    </div>
  )
}
