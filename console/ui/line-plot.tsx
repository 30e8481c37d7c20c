/** The canvas of a `LineChart`. A canvas does not follow CSS, so it is recreated when the theme changes. */
import { useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { lineColor } from './line-color.ts'
import { readColor, useScheme } from './scheme.ts'

export interface LineData {
  /** Unix seconds, ascending. */
  readonly times: readonly number[]
  /** Each as long as `times`; null: no value. */
  readonly series: ReadonlyArray<{ readonly label: string; readonly values: ReadonlyArray<number | null> }>
  readonly format: (value: number) => string
}

interface LinePlotProps extends LineData {
  readonly max: number | undefined
  readonly height: number
  /** Index of the hovered point. */
  readonly onPoint: (index: number | null) => void
}

const AXIS_FONT = "12px 'Inter Variable', system-ui, sans-serif"
const CHAR_PX = 7
const AXIS_GAP_PX = 14
const TIME_AXIS_PX = 28
const DAY_S = 86_400
/** Labels have no fractions of seconds. */
const SHORT_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800]
const TIME_STEPS_S = [
  ...SHORT_STEPS_S,
  ...[1, 2, 3, 6, 12].map((hours) => hours * 3_600),
  ...[1, 2, 7, 14, 30, 90, 365].map((days) => days * DAY_S),
]

export function LinePlot(props: LinePlotProps) {
  const scheme = useScheme()
  const names = props.series.map(({ label }) => label).join('\n')
  return <Canvas key={`${scheme}\n${props.height}\n${names}`} {...props} />
}

function Canvas(props: LinePlotProps) {
  const box = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const latest = useRef(props)
  useEffect(() => {
    latest.current = props
    plot.current?.setData(dataOf(props))
  })
  useEffect(() => {
    const element = box.current
    if (element === null) return undefined
    const uplot = new uPlot(optionsOf(latest, element), dataOf(latest.current), element)
    plot.current = uplot
    const watcher = new ResizeObserver(() => {
      if (element.clientWidth > 0) uplot.setSize({ width: element.clientWidth, height: latest.current.height })
    })
    watcher.observe(element)
    return () => {
      watcher.disconnect()
      uplot.destroy()
      plot.current = null
    }
  }, [])
  return <div ref={box} aria-hidden="true" className="absolute inset-0 overflow-hidden" />
}

function dataOf({ times, series }: LinePlotProps): uPlot.AlignedData {
  return [[...times], ...series.map(({ values }) => [...values])]
}

function optionsOf(latest: { readonly current: LinePlotProps }, element: HTMLElement): uPlot.Options {
  const { series, height } = latest.current
  const axis = {
    stroke: readColor('muted'),
    font: AXIS_FONT,
    grid: { stroke: readColor('line'), width: 1 },
    ticks: { show: false },
  }
  return {
    width: Math.max(1, element.clientWidth),
    height,
    legend: { show: false },
    cursor: { y: false, drag: { setScale: false } },
    scales: { y: { range: (_, min, max) => rangeOf(min, max, latest.current.max) } },
    series: [
      {},
      ...series.map(({ label }, index) => {
        const { word, isDashed } = lineColor(index)
        return { label, stroke: readColor(word), width: 2, ...(isDashed ? { dash: [6, 4] } : {}) }
      }),
    ],
    axes: [
      {
        ...axis,
        size: TIME_AXIS_PX,
        incrs: TIME_STEPS_S,
        values: (_, splits, _axis, _space, stepS) => splits.map((at) => timeText(at, stepS)),
      },
      {
        ...axis,
        values: (_, splits) => splits.map((value) => latest.current.format(value)),
        size: (_, values) => AXIS_GAP_PX + CHAR_PX * Math.max(2, ...(values ?? []).map((text) => text.length)),
      },
    ],
    hooks: { setCursor: [({ cursor }) => latest.current.onPoint(cursor.idx ?? null)] },
  }
}

/** Scales start at zero, so that small changes do not look large. */
function rangeOf(min: number | null, max: number | null, most: number | undefined): [number, number] {
  const low = Math.min(0, min ?? 0)
  const [, high] = uPlot.rangeNum(low, Math.max(max ?? 0, low), 0.1, true)
  return [low, most ?? (high === null || high <= low ? low + 1 : high)]
}

const days = new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric' })
const minutes = new Intl.DateTimeFormat('en', { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
const seconds = new Intl.DateTimeFormat('en', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
})

function timeText(atS: number, stepS: number): string {
  const format = stepS >= DAY_S ? days : stepS >= 60 ? minutes : seconds
  return format.format(atS * 1_000)
}
