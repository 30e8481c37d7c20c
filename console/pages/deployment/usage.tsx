/** Requests, GPU cost and utilization of a deployment in the last 30 days. */
import { outstandingText, percent, rate, span, unitNoun } from '../../../src/view/economics.ts'
import type { ManagedDeployment } from '../../../src/view/deployment.ts'
import { money } from '../../../src/view/money.ts'
import { count, number } from '../../../src/view/number.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Section, Stats } from '../../ui/card.tsx'

/** The server counts at this interval. */
const EVERY_MS = 10_000

export function Usage({ deployment: { id, kind } }: { deployment: ManagedDeployment }) {
  const usage = useCall('getDeploymentUsage', { params: { id } }, { everyMs: EVERY_MS })
  const noun = unitNoun(kind)
  return (
    <Section title="Last 30 days">
      <Answer of={usage} skeleton={<span className="h-[6.9rem] animate-pulse rounded-lg bg-sunken" />}>
        {(used) => (
          <Stats
            stats={[
              [
                `${noun.charAt(0).toUpperCase()}${noun.slice(1)}s`,
                number(used.inputUnits + used.outputUnits),
                count(used.requests, 'request'),
              ],
              [
                'GPU cost',
                money(used.gpuCostUsd),
                used.unitsPerUsd === null ? 'Nothing charged yet' : `${rate(used.unitsPerUsd)} ${noun}s per dollar`,
              ],
              [
                'Utilization',
                percent(used.utilizationPercent),
                used.paidSeconds === 0
                  ? 'Nothing charged yet'
                  : `${span(used.busySeconds)} busy of ${span(used.paidSeconds)} paid`,
              ],
              [
                `${noun.charAt(0).toUpperCase()}${noun.slice(1)}s per second`,
                rate(used.unitsPerSecond),
                used.outstandingPerReplica === null
                  ? 'One replica while busy'
                  : `${outstandingText(used)} requests per replica`,
              ],
            ]}
          />
        )}
      </Answer>
    </Section>
  )
}
