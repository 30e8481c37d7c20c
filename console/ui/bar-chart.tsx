/**
 * A stacked bar chart of nano-dollars. Every bar is reachable by keyboard (arrow keys) and labelled, and the values are
 * also available as a table. Values stay exact; only the heights are floats.
 */
import { useState, type KeyboardEvent, type ReactNode } from 'react'
import { nanoUsdOf } from '../../src/base/money.ts'
import { exactMoney, money } from '../../src/view/money.ts'
import { Button } from './button.tsx'
import { cx } from './class.ts'
import { Table, type Column } from './table.tsx'

export interface Bar {
  readonly key: string
  /** Short, for the axis: "Nov 15". */
  readonly name: string
  /** One value for each part of the chart. */
  readonly values: readonly bigint[]
  /** Text for the tooltip and the table: "12 requests". */
  readonly detail?: string
}

interface BarChartProps {
  readonly label: string
  /** Column header of the bars: "Day". */
  readonly barName: string
  /** The names of the parts, from the bottom up. A single part has no legend. */
  readonly parts: readonly string[]
  readonly bars: readonly Bar[]
}

const HEIGHT_PX = 220
const TOP_PX = 10
const BAR_SHARE = 0.72
/** Names under the axis. */
const MAX_AXIS_NAMES = 8
/** Small values stay visible at this height. */
const MIN_BAR_PX = 2

const looks = [
  { fill: 'fill-accent', mark: 'bg-accent' },
  { fill: 'fill-info', mark: 'bg-info' },
  { fill: 'fill-warn', mark: 'bg-warn' },
  { fill: 'fill-good', mark: 'bg-good' },
  { fill: 'fill-bad', mark: 'bg-bad' },
  { fill: 'fill-line-strong', mark: 'bg-line-strong' },
] as const

/** The caller combines further parts. */
export const MAX_PARTS = looks.length

export function BarChart(props: BarChartProps) {
  const [isTable, setTable] = useState(false)
  const { parts } = props
  return (
    <div>
      <div className="mb-2 flex min-h-9 flex-wrap items-center justify-between gap-2">
        {parts.length > 1 && !isTable ? <Legend parts={parts} /> : <span />}
        <Button look="quiet" onClick={() => setTable(!isTable)}>
          {isTable ? 'Show as chart' : 'Show as table'}
        </Button>
      </div>
      {isTable ? <ChartTable {...props} /> : <Drawing {...props} />}
    </div>
  )
}

function Legend({ parts }: { parts: readonly string[] }) {
  return (
    <ul className="flex flex-wrap gap-x-4 gap-y-1 text-sm text-muted">
      {parts.map((part, index) => (
        <li key={part} className="flex items-center gap-1.5">
          <span aria-hidden="true" className={cx('size-2.5 rounded-xs', lookOf(index).mark)} />
          {part}
        </li>
      ))}
    </ul>
  )
}

function Drawing({ label, bars, parts }: BarChartProps) {
  const [barIndex, setBarIndex] = useState<number>()
  // The index of the bar that Tab reaches; arrow keys move it.
  const [reached, setReached] = useState(bars.length - 1)
  const scaleMax = roundUp(bars.reduce((most, bar) => (sumOf(bar) > most ? sumOf(bar) : most), 0n))
  const place = 100 / bars.length
  const move = (event: KeyboardEvent<HTMLElement>, index: number): void => {
    const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: bars.length - 1 }[event.key]
    const next = to === undefined ? null : event.currentTarget.parentElement?.children[to]
    if (!(next instanceof HTMLElement)) return
    event.preventDefault()
    next.focus()
  }
  return (
    <div className="flex gap-2">
      <div aria-hidden="true" className="relative shrink-0 text-right text-xs text-muted" style={{ height: HEIGHT_PX }}>
        <Ticks top={scaleMax} />
      </div>
      <div className="min-w-0 flex-1">
        <div className="relative" style={{ height: HEIGHT_PX }} onPointerLeave={() => setBarIndex(undefined)}>
          <svg aria-hidden="true" className="size-full">
            {tickShares.map((share) => (
              <line
                key={share}
                x1="0"
                x2="100%"
                y1={yOf(share)}
                y2={yOf(share)}
                className={share === 0 ? 'stroke-line-strong' : 'stroke-line'}
              />
            ))}
            {bars.map((bar, index) => (
              <BarParts
                key={bar.key}
                bar={bar}
                top={scaleMax}
                xShare={place * (index + (1 - BAR_SHARE) / 2)}
                wide={place}
              />
            ))}
          </svg>
          <div role="group" aria-label={label} className="absolute inset-0 flex">
            {bars.map((bar, index) => (
              <button
                key={bar.key}
                type="button"
                tabIndex={index === Math.min(reached, bars.length - 1) ? 0 : -1}
                aria-label={describe(bar, parts)}
                onPointerEnter={() => setBarIndex(index)}
                onFocus={() => {
                  setReached(index)
                  setBarIndex(index)
                }}
                onBlur={() => setBarIndex(undefined)}
                onKeyDown={(event) => move(event, index)}
                className={cx('h-full flex-1 -outline-offset-2', barIndex === index && 'bg-ink/5')}
              />
            ))}
          </div>
          <Tooltip bars={bars} index={barIndex} parts={parts} />
        </div>
        <AxisNames bars={bars} />
      </div>
    </div>
  )
}

function BarParts({ bar, top, xShare, wide }: { bar: Bar; top: bigint; xShare: number; wide: number }) {
  let under = 0
  return bar.values.map((value, index) => {
    if (value <= 0n) return null
    const height = Math.max((Number(value) / Number(top)) * (HEIGHT_PX - TOP_PX), MIN_BAR_PX)
    under += height
    return (
      <rect
        // Parts have no other key.
        key={index}
        x={`${xShare}%`}
        width={`${wide * BAR_SHARE}%`}
        y={HEIGHT_PX - under}
        height={height}
        className={lookOf(index).fill}
      />
    )
  })
}

/** The tooltip of the hovered or focused bar. On the right half it opens to the left. */
function Tooltip({ bars, index, parts }: Omit<BarChartProps, 'label' | 'barName'> & { index: number | undefined }) {
  const bar = index === undefined ? undefined : bars[index]
  if (index === undefined || bar === undefined) return null
  const middle = ((index + 0.5) / bars.length) * 100
  const side = middle > 50 ? { right: `${100 - middle}%` } : { left: `${middle}%` }
  return (
    <div
      aria-hidden="true"
      style={side}
      className="pointer-events-none absolute top-1 z-10 rounded-md border border-line bg-surface px-3 py-2 text-xs whitespace-nowrap shadow-raised"
    >
      <p className="font-medium">{bar.name}</p>
      {parts.length > 1 &&
        parts.map((part, n) => {
          const value = bar.values[n] ?? 0n
          if (value === 0n) return null
          return (
            <p key={part} className="flex items-center gap-1.5">
              <span className={cx('size-2 rounded-xs', lookOf(n).mark)} />
              <span className="flex-1 text-muted">{part}</span>
              <span className="pl-3 tabular-nums">{moneyOf(value)}</span>
            </p>
          )
        })}
      <p className="font-medium tabular-nums">{moneyOf(sumOf(bar))}</p>
      {bar.detail !== undefined && <p className="text-muted">{bar.detail}</p>}
    </div>
  )
}

const tickShares = [0, 0.5, 1] as const

/** The longest label sets the width. */
function Ticks({ top }: { top: bigint }): ReactNode {
  const texts = tickShares.map((share) => ({ share, text: exactMoney(nanoUsdOf((top * BigInt(share * 2)) / 2n)) }))
  const longest = texts.reduce((most, { text }) => (text.length > most.length ? text : most), '')
  return (
    <>
      <span className="invisible tabular-nums">{longest}</span>
      {texts.map(({ share, text }) => (
        <span key={share} className="absolute right-0 -translate-y-1/2 tabular-nums" style={{ top: yOf(share) }}>
          {text}
        </span>
      ))}
    </>
  )
}

/** The newest bar always has its name; narrow screens skip every second one. */
function AxisNames({ bars }: { bars: readonly Bar[] }) {
  const every = Math.ceil(bars.length / MAX_AXIS_NAMES)
  const last = bars.length - 1
  return (
    <div aria-hidden="true" className="mt-1 flex h-5 text-xs text-muted">
      {bars.map((bar, index) => (
        <span key={bar.key} className="relative flex-1">
          {(last - index) % every === 0 && (
            <span
              className={cx(
                'absolute whitespace-nowrap',
                index === last && every > 1 ? 'right-0' : 'left-1/2 -translate-x-1/2',
                ((last - index) / every) % 2 === 1 && 'max-sm:hidden',
              )}
            >
              {bar.name}
            </span>
          )}
        </span>
      ))}
    </div>
  )
}

function ChartTable({ label, barName, parts, bars }: BarChartProps) {
  const hasDetail = bars.some((bar) => bar.detail !== undefined)
  const columns = columnsOf(barName, parts, hasDetail)
  return <Table label={label} columns={columns} rows={bars} rowKey={(bar) => bar.key} empty={null} />
}

function columnsOf(barName: string, parts: readonly string[], hasDetail: boolean): ReadonlyArray<Column<Bar>> {
  return [
    { name: 'name', header: barName, cell: (bar) => <span className="whitespace-nowrap">{bar.name}</span> },
    ...parts.map((part, index): Column<Bar> => ({
      name: part,
      header: part,
      align: 'right',
      cell: (bar) => moneyOf(bar.values[index] ?? 0n),
    })),
    ...(parts.length > 1
      ? [{ name: 'sum', header: 'Total', align: 'right', cell: (bar) => moneyOf(sumOf(bar)) } as Column<Bar>]
      : []),
    ...(hasDetail
      ? [{ name: 'detail', header: 'Detail', align: 'right', cell: (bar) => bar.detail } as Column<Bar>]
      : []),
  ]
}

function describe(bar: Bar, parts: readonly string[]): string {
  const split = bar.values.flatMap((value, index) => (value === 0n ? [] : [`${parts[index] ?? ''} ${moneyOf(value)}`]))
  const details = parts.length > 1 && split.length > 0 ? ` (${split.join(', ')})` : ''
  return `${bar.name}: ${moneyOf(sumOf(bar))}${details}${bar.detail === undefined ? '' : `, ${bar.detail}`}`
}

function sumOf(bar: Bar): bigint {
  return bar.values.reduce((sum, value) => sum + value, 0n)
}

function lookOf(index: number): (typeof looks)[number] {
  return looks[index % looks.length] ?? looks[0]
}

function yOf(share: number): number {
  return share === 0 ? HEIGHT_PX - 0.5 : HEIGHT_PX - share * (HEIGHT_PX - TOP_PX)
}

/** Returns the next of 2, 4, 10, 20, 40 …, because half of each is round as well. */
function roundUp(value: bigint): bigint {
  for (let unit = 1n; ; unit *= 10n) {
    for (const step of [2n, 4n, 10n]) if (unit * step >= value) return unit * step
  }
}

function moneyOf(value: bigint): string {
  return money(nanoUsdOf(value))
}
