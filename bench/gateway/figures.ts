/** Table rows from measurements. */
import { median, type Figure } from '../harness.ts'
import { ratiosOf, type Measured } from './rounds.ts'
import type { MissingSide } from './side.ts'

export function figureOf(name: string, rounds: readonly number[], unit: string, against?: string): Figure {
  return { name, value: median(rounds), unit, rounds, ...(against === undefined ? {} : { against }) }
}

/** CPU first, because it is compared; the rest is informational. */
export function sideFigures({ side, cpuUs, rates, p50Ms, p99Ms, faults }: Measured, what: string): Figure[] {
  const wrong = faults.reduce((sum, one) => sum + one, 0)
  return [
    ...(side.pid === undefined ? [] : [figureOf(`${side.name}: CPU a ${what}`, cpuUs, 'µs')]),
    figureOf(`${side.name}: ${what}s a second`, rates, '/s'),
    figureOf(`${side.name}: latency, median`, p50Ms, 'ms'),
    figureOf(`${side.name}: latency, 99 of 100`, p99Ms, 'ms'),
    ...(wrong === 0 ? [] : [{ name: `${side.name}: wrong ${what}s`, value: wrong, unit: '' }]),
  ]
}

/** Without a target it is informational. */
export function ratioFigure(
  name: string,
  one: Measured | undefined,
  other: Measured | undefined,
  goal?: string,
): Figure {
  return figureOf(name, one === undefined || other === undefined ? [] : ratiosOf(one, other), '×', goal)
}

export function missingFigure({ name, missing }: MissingSide): Figure {
  return { name: `${name}: not measured`, value: Number.NaN, unit: '', against: missing }
}
