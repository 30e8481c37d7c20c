/** GPU utilization of the last hour as a small line for tables. One request serves all rows. */
import type { Reply } from '../../../src/client/client.ts'
import type { OwnMachine } from '../../../src/view/own-machine.ts'
import { useCall } from '../../api/query.ts'

const EVERY_MS = 60_000
const MAX_ROWS = 100
const WIDTH = 96
const HEIGHT = 20

type Values = Reply<'listRentalMetrics'>['rentals'][number]['gpuUtilizationPercent']

/** Metrics by id. Only the first hundred running machines have them. */
export function useSparklines(machines: readonly OwnMachine[]): ReadonlyMap<string, Values> {
  const ids = machines
    .filter(({ status }) => status === 'Running')
    .slice(0, MAX_ROWS)
    .map(({ id }) => id)
    .toSorted()
  const { data } = useCall(
    'listRentalMetrics',
    { query: { ids: ids.join(',') } },
    { everyMs: EVERY_MS, enabled: ids.length > 0, keepsLast: true },
  )
  const lines = data?.rentals ?? []
  return new Map(lines.map(({ rentalId, gpuUtilizationPercent: values }) => [String(rentalId), values]))
}

export function Sparkline({ values }: { values: Values | undefined }) {
  const last = values?.findLast((value) => value !== null) ?? null
  const label = last === null ? 'No measurements' : `GPU utilization in the last hour, now ${Math.round(last)}%`
  return (
    <svg role="img" aria-label={label} width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`}>
      <line x1="0" x2={WIDTH} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} className="stroke-line" />
      {values !== undefined &&
        pathsOf(values).map((points) => (
          <polyline key={points} points={points} fill="none" strokeWidth="1.5" className="stroke-accent" />
        ))}
    </svg>
  )
}

/** Draws one line for each stretch without a gap. */
function pathsOf(values: Values): string[] {
  const paths: string[][] = [[]]
  values.forEach((value, at) => {
    if (value === null) return void (paths.at(-1)?.length === 0 || paths.push([]))
    const x = (at / Math.max(1, values.length - 1)) * WIDTH
    const y = HEIGHT - 1 - (Math.min(value, 100) / 100) * (HEIGHT - 2)
    paths.at(-1)?.push(`${x.toFixed(1)},${y.toFixed(1)}`)
  })
  // A single point would be invisible.
  return paths.filter((path) => path.length > 1).map((path) => path.join(' '))
}
