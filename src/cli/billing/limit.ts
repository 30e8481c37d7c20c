/** `berth billing limits`: what the account may spend and add, and how much of it is used. */
import { money } from '../../view/money.ts'
import { stageLabels } from '../../view/account.ts'
import { utcTime } from '../../view/time.ts'
import { show } from '../kit/row.ts'
import { toned } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'

export const limitRow: Row = show('billing limits', 'getAccountLimits', 'show what the account may spend and add', {
  facts: [
    {
      Stage: ({ stage, newUntil }) =>
        `${stageLabels[stage]}${newUntil === null ? '' : `; the limits rise on ${utcTime(newUntil)}`}`,
      'Per hour': ({ hourlySpendUsd, quota }) =>
        `${money(hourlySpendUsd)} of ${money(String(quota['hourlySpendUsd'] ?? 0))}; stopped machines count in full`,
      'Top-ups per day': ({ toppedUpUsd, quota }) =>
        `${money(toppedUpUsd)} of ${money(String(quota['topUpPerDayUsd'] ?? 0))}`,
      Cards: ({ topUpsBlocked }) => (topUpsBlocked ? toned('bad', 'too many were declined today') : undefined),
    },
  ],
  examples: ['berth billing limits'],
})
