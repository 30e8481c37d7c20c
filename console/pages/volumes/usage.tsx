/** How full a volume is, if its provider reports it. */
import { number } from '../../../src/view/number.ts'
import type { Volume } from '../../../src/view/volume.ts'
import { cx } from '../../ui/class.ts'

/** The bar shows a warning from this percentage on. */
const FULL_PERCENT = 90

export function Usage({ volume: { label, usedGb, sizeGb, growingToGb } }: { volume: Volume }) {
  const percent = usedGb === null ? undefined : Math.min(100, (100 * usedGb) / sizeGb)
  return (
    <div className="min-w-32">
      <span className="block whitespace-nowrap tabular-nums">
        {usedGb === null ? `${number(sizeGb)} GB` : `${number(usedGb)} of ${number(sizeGb)} GB`}
      </span>
      {percent !== undefined && (
        <div
          role="meter"
          aria-label={`Used on ${label}`}
          aria-valuemin={0}
          aria-valuemax={sizeGb}
          aria-valuenow={usedGb ?? 0}
          aria-valuetext={`${Math.round(percent)}%`}
          className="mt-1 h-1.5 w-full overflow-hidden rounded-full bg-line"
        >
          <div
            className={cx('h-full rounded-full', percent >= FULL_PERCENT ? 'bg-warn' : 'bg-accent')}
            style={{ width: `${percent}%` }}
          />
        </div>
      )}
      {growingToGb !== null && <span className="block text-xs text-muted">growing to {number(growingToGb)} GB</span>}
    </div>
  )
}
