/**
 * Lines over time. What draws them is loaded when a chart is first on the screen; its place is kept until then. The
 * newest values, or those under the pointer, stand as text below, for everybody who does not see the lines.
 */
import { lazy, Suspense, useState } from 'react'
import { cx } from './class.ts'
import { lineColour } from './line-colour.ts'

export interface LineChartProps {
  /** What the chart is about: its accessible name. */
  readonly label: string
  /** In seconds since 1970, rising. */
  readonly times: readonly number[]
  /** Each as long as `times`; null: nothing is known of that time. */
  readonly series: ReadonlyArray<{ readonly label: string; readonly values: ReadonlyArray<number | null> }>
  readonly format: (value: number) => string
  /** The upper end of the scale, where there is one, such as 100 %. */
  readonly max?: number
  readonly height?: number
}

const HEIGHT_PX = 180

const LinePlot = lazy(() => import('./line-plot.tsx').then((module) => ({ default: module.LinePlot })))

export function LineChart({ label, times, series, format, max, height = HEIGHT_PX }: LineChartProps) {
  const [pointed, setPointed] = useState<number | null>(null)
  const at = pointed !== null && pointed < times.length ? pointed : times.length - 1
  const atTime = times[at]
  return (
    <figure className="min-w-0">
      <div role="img" aria-label={label} style={{ height }} className="relative min-w-0">
        {atTime === undefined ? (
          <p className="flex h-full items-center justify-center text-sm text-muted">Nothing to show yet.</p>
        ) : (
          <Suspense fallback={null}>
            <LinePlot times={times} series={series} format={format} max={max} height={height} onPoint={setPointed} />
          </Suspense>
        )}
      </div>
      {atTime !== undefined && (
        <figcaption className="mt-2 text-sm">
          <ul
            aria-label={`${label}: ${pointed === null ? 'newest values' : 'values there'}`}
            className="flex flex-wrap gap-x-4 gap-y-1"
          >
            {series.map((line, index) => (
              <li key={line.label} className="flex items-center gap-1.5">
                <span aria-hidden="true" className={cx('w-4 border-t-2', markOf(index))} />
                <span className="text-muted">{line.label}</span>
                <span className="font-medium tabular-nums">{told(line.values[at], format)}</span>
              </li>
            ))}
          </ul>
        </figcaption>
      )}
    </figure>
  )
}

function markOf(index: number): string {
  const { mark, isDashed } = lineColour(index)
  return cx(mark, isDashed && 'border-dashed')
}

function told(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? '—' : format(value)
}
