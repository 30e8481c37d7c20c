/** A progress bar; indeterminate without a value. */
interface ProgressProps {
  readonly label: string
  readonly value: number | undefined
  readonly max: number
}

export function Progress({ label, value, max }: ProgressProps) {
  const percent = value === undefined ? undefined : Math.min(100, Math.max(0, (100 * value) / max))
  return (
    <div
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={max}
      aria-valuenow={value}
      className="h-2 w-full overflow-hidden rounded-full bg-sunken"
    >
      {percent === undefined ? (
        <div className="h-full w-full animate-pulse rounded-full bg-accent-soft" />
      ) : (
        <div className="h-full rounded-full bg-accent transition-[width]" style={{ width: `${percent}%` }} />
      )}
    </div>
  )
}
