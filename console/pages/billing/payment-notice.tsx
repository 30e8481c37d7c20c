/** Shows customers who return from the payment page the state of their payment, and follows it until it is decided. */
import type { ReactNode } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { money } from '../../../src/view/money.ts'
import { paymentDetail } from '../../../src/view/payment.ts'
import { localTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { Button } from '../../ui/button.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Notice } from '../../ui/notice.tsx'

type Payment = Reply<'getTopUp'>

/** The message of the processor takes about a second. */
const OPEN_EVERY_MS = 2_000

export function PaymentNotice({ id, onClose }: { id: string; onClose: () => void }) {
  const first = useCall('getTopUp', { params: { id } })
  const isOpen = first.data?.state === 'open'
  // The same read, repeated only while something can change.
  const payment = useCall('getTopUp', { params: { id } }, { everyMs: isOpen ? OPEN_EVERY_MS : undefined })
  if (payment.error !== null && payment.data === undefined) return <ErrorNotice error={payment.error} isRead />
  return (
    <div role="status">
      <Notice tone={payment.data === undefined || toneOf(payment.data) === 'info' ? 'info' : 'warn'}>
        <div className="flex flex-wrap items-center justify-between gap-x-4 gap-y-2">
          <div className="min-w-0">{payment.data === undefined ? 'Reading the payment…' : textOf(payment.data)}</div>
          <div className="flex gap-2">
            {payment.data !== undefined && <PayButton payment={payment.data} />}
            <Button look="quiet" onClick={onClose}>
              Close
            </Button>
          </div>
        </div>
      </Notice>
    </div>
  )
}

function PayButton({ payment: { url, amountUsd } }: { payment: Payment }) {
  if (url === null) return null
  return (
    <Button look="primary" onClick={() => location.assign(url)}>
      Pay {money(amountUsd)}
    </Button>
  )
}

function toneOf({ state }: Payment): 'info' | 'warn' {
  return state === 'open' || state === 'paid' ? 'info' : 'warn'
}

function textOf(payment: Payment): ReactNode {
  const { state, amountUsd, taxUsd, url, expiresAt } = payment
  const credit = money(amountUsd)
  if (state === 'paid') {
    const tax = taxUsd === null || /^0+(\.0+)?$/.test(taxUsd) ? '' : ` You paid ${money(taxUsd)} of tax on top.`
    return `Payment received: ${credit} was added to your balance.${tax}`
  }
  if (state === 'failed') return `The payment of ${credit} failed: ${paymentDetail(payment) ?? 'no reason given'}.`
  if (state === 'expired') return `The payment page for ${credit} has expired. Nothing was charged.`
  if (state === 'mismatch') return `The payment of ${credit} needs a review by the operator, who has been notified.`
  return url === null
    ? `Preparing the payment page for ${credit}…`
    : `Waiting for the payment of ${credit}. If you have paid, this takes a few seconds; the page is open until ${localTime(expiresAt)}.`
}
