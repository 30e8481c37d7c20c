/** Explains why an order was rejected. A changed price and a repeated order need more than the server's sentence. */
import type { NanoUsd } from '../../../src/base/money.ts'
import { ApiError, type ClientError } from '../../../src/client/error.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { isFirstDone } from '../../api/once.ts'
import { FormProblems } from '../../form/dialog.tsx'
import type { Form } from '../../form/use-form.ts'
import { TextLink } from '../../ui/button.tsx'

export function isPriceChange(error: ClientError | null): boolean {
  return error instanceof ApiError && error.reason === 'price_changed'
}

interface OrderProblemsProps {
  readonly form: Pick<Form<object>, 'elsewhere'>
  /** The price limit of the order. */
  readonly priceLimit: string | undefined
  /** The current price; the old one while the current one is being read. */
  readonly now: NanoUsd
}

export function OrderProblems({ form, priceLimit = '', now }: OrderProblemsProps) {
  const { error } = form.elsewhere()
  if (isFirstDone(error)) {
    return (
      <div role="alert" className={box}>
        Your first order succeeded. Check <TextLink to="/rentals">Rentals</TextLink> before you order again.
      </div>
    )
  }
  if (!isPriceChange(error)) return <FormProblems form={form} />
  return (
    <div role="alert" className={box}>
      {hourlyPrice(priceLimit) === hourlyPrice(now)
        ? 'The price has changed. Loading the new price …'
        : `The price has changed from ${hourlyPrice(priceLimit)} to ${hourlyPrice(now)}. Review it and order again.`}
    </div>
  )
}

const box = 'rounded-md border border-warn bg-warn-soft px-4 py-3 text-sm text-ink'
