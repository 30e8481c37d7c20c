/** Placeholders while content loads. */
import { cx } from './class.ts'

export function Skeleton({ rows = 3, className }: { rows?: number; className?: string }) {
  return (
    <div role="status" aria-label="Loading" className={cx('flex flex-col gap-2', className)}>
      {Array.from({ length: rows }, (_, row) => (
        <span key={row} className="h-9 animate-pulse rounded-md bg-sunken" />
      ))}
    </div>
  )
}

/** A skeleton for inline text. */
export function SkeletonText({ className = 'w-24' }: { className?: string }) {
  return (
    <span
      aria-hidden="true"
      className={cx('inline-block h-[1em] animate-pulse rounded bg-sunken align-middle', className)}
    />
  )
}
