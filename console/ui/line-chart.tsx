/** A line chart over time, loaded on first use. The latest or hovered values are shown as text below it. */
import { lazy, Suspense, useState } from 'react'
import { cx } from './class.ts'
import { lineColor } from './line-color.ts'
import type { LineData } from './line-plot.tsx'

interface LineChartProps extends LineData {
  /** Accessible name. */
  readonly label: string
  /** Upper end of the scale, such as 100 %. */
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
          <p className="flex h-full items-center justify-center text-sm text-muted">No data yet.</p>
        ) : (
          <Suspense fallback={null}>
            <LinePlot times={times} series={series} format={format} max={max} height={height} onPoint={setPointed} />
          </Suspense>
        )}
      </div>
      {atTime !== undefined && (
        <figcaption className="mt-2 text-sm">
          <ul
            aria-label={`${label}: ${pointed === null ? 'latest values' : 'values at the pointer'}`}
            className="flex flex-wrap gap-x-4 gap-y-1"
          >
            {series.map((line, index) => (
              <li key={line.label} className="flex items-center gap-1.5">
                <span aria-hidden="true" className={cx('w-4 border-t-2', markOf(index))} />
                <span className="text-muted">{line.label}</span>
                <span className="font-medium tabular-nums">{valueLabel(line.values[at], format)}</span>
              </li>
            ))}
          </ul>
        </figcaption>
      )}
    </figure>
  )
}

function markOf(index: number): string {
  const { mark, isDashed } = lineColor(index)
  return cx(mark, isDashed && 'border-dashed')
}

function valueLabel(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? '—' : format(value)
}
