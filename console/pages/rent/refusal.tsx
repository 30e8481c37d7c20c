/** Why an order was not taken. Two reasons need more than the server's sentence: what to look at before the next try. */
import type { NanoUsd } from '../../../src/base/money.ts'
import { isRefusal, type ClientError } from '../../../src/client/error.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { isFirstDone } from '../../api/once.ts'
import { TextLink } from '../../ui/button.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'

export function isPriceChange(error: ClientError | null): boolean {
  return isRefusal(error, 'price_changed')
}

interface OrderRefusalProps {
  readonly error: ClientError
  /** What the machine may have cost an hour, as it was ordered. */
  readonly asked: string | undefined
  /** What it costs now. The same as before: that is still being read. */
  readonly now: NanoUsd
}

export function OrderRefusal({ error, asked = '', now }: OrderRefusalProps) {
  if (isFirstDone(error)) {
    return (
      <div role="alert" className={box}>
        Your first order went through; look under <TextLink to="/rentals">Rentals</TextLink> before you order again.
      </div>
    )
  }
  if (!isPriceChange(error)) return <ErrorNotice error={error} />
  return (
    <div role="alert" className={box}>
      {money(asked) === money(now)
        ? 'The price has changed; the new one is being read.'
        : `The price has changed from ${money(asked)} to ${hourlyPrice(now)}; look again and order.`}
    </div>
  )
}

const box = 'rounded-md border border-warn bg-warn-soft px-4 py-3 text-sm text-ink'
