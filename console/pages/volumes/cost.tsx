/** The cost of a volume, shown before it is ordered. */
import type { ReactNode } from 'react'
import { DAY_MS } from '../../../src/base/instant.ts'
import { costOfSpan, nanoUsdOf, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import { money } from '../../../src/view/money.ts'
import { Facts } from '../../ui/card.tsx'
import { MONTH_DAYS, TooLittle, useAffordable } from '../rent/money.tsx'
import { priceOfVolume, useStorageOption } from './price.ts'

interface VolumeCost {
  readonly view: ReactNode
  readonly disabledReason: string | undefined
}

/** `perHourNow`: the price of the volume before it grows. */
export function useVolumeCost(region: string, sizeGb: number | undefined, perHourNow: NanoUsd = zeroUsd): VolumeCost {
  const option = useStorageOption(region)
  const perHour = Number.isInteger(sizeGb) ? priceOfVolume(option, sizeGb ?? 0) : undefined
  const more = perHour === undefined || perHour <= perHourNow ? zeroUsd : nanoUsdOf(perHour - perHourNow)
  const affordable = useAffordable(more)
  const view = (
    <>
      {perHour !== undefined && (
        <div className="rounded-md border border-line bg-sunken p-3" aria-live="polite">
          <Facts
            facts={[
              ['Per hour', <strong key="hour">{money(perHour)}</strong>],
              ['Per day', money(costOfSpan(perHour, DAY_MS))],
              [`Per ${MONTH_DAYS} days`, money(costOfSpan(perHour, MONTH_DAYS * DAY_MS))],
            ]}
          />
        </div>
      )}
      <TooLittle of={affordable} />
    </>
  )
  const disabledReason = affordable.isEnough === false ? 'Your balance does not cover the first hour' : undefined
  return { view, disabledReason }
}
