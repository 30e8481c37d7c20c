/** The limits of an account that is not trusted yet. Trusted ones see nothing. */
import type { ReactNode } from 'react'
import { stageLabels } from '../../../src/view/account.ts'
import { money } from '../../../src/view/money.ts'
import { localDate } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { Card, Facts, type Fact } from '../../ui/card.tsx'

export function LimitsCard(): ReactNode {
  const { data } = useCall('getAccountLimits')
  if (data === undefined || (data.stage === 'trusted' && !data.topUpsBlocked)) return null
  const { stage, newUntil, quota, hourlySpendUsd, toppedUpUsd, topUpsBlocked } = data
  const limit = (name: 'hourlySpendUsd' | 'topUpPerDayUsd') => money(String(quota[name] ?? 0))
  const facts: Fact[] = [
    ['Stage', stageLabels[stage]],
    ['Spend per hour', `${money(hourlySpendUsd)} of ${limit('hourlySpendUsd')}; stopped machines count in full`],
    ['Top-ups per day', `${money(toppedUpUsd)} of ${limit('topUpPerDayUsd')}`],
  ]
  return (
    <Card title="Limits">
      <Facts facts={facts} />
      {topUpsBlocked && (
        <p className="mt-3 text-sm text-bad">Too many cards were declined today: no money can be added for a day.</p>
      )}
      {stage === 'new' && (
        <p className="mt-3 text-sm text-muted">
          {newUntil === null
            ? 'The limits rise a week after your first payment.'
            : `The limits rise on ${localDate(newUntil)}.`}{' '}
          The operator can raise them earlier.
        </p>
      )}
    </Card>
  )
}
