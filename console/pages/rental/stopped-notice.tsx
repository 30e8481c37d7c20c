/** Why a machine is stopped, and what it costs meanwhile. */
import type { Reply } from '../../../src/client/client.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { rentalReasonSentence } from '../../../src/view/rental.ts'
import { localTime } from '../../../src/view/time.ts'
import { Notice } from '../../ui/notice.tsx'

type Stoppable = Pick<
  Reply<'getRental'>,
  'state' | 'statusReason' | 'statusMessage' | 'startRequestedAt' | 'stoppedCostPerHourUsd'
>

export function StoppedNotice({ rental }: { rental: Stoppable }) {
  if (rental.state !== 'Stopped') return null
  const { statusReason, statusMessage, startRequestedAt, stoppedCostPerHourUsd: price } = rental
  const cost = price === null ? '' : ` for ${hourlyPrice(price)}`
  return (
    <Notice>
      {startRequestedAt !== null && (
        <p className="font-medium">
          Waiting since {localTime(startRequestedAt)}: it starts as soon as its host has enough free GPUs.
        </p>
      )}
      <p>
        {statusReason !== null && `${rentalReasonSentence(statusReason)} `}
        {statusMessage !== null && `${statusMessage} `}
        Its disk is kept{cost}.
      </p>
    </Notice>
  )
}
