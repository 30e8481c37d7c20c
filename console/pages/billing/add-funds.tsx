/** Adding money by card: the amount here, the card and the tax on the page of the payment processor. */
import { formatUsdForPeople, parseUsd } from '../../../src/base/money.ts'
import { MAX_TOP_UP, MIN_TOP_UP } from '../../../src/domain/payment.ts'
import { money } from '../../../src/view/money.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { FormProblems } from '../../form/dialog.tsx'
import { useFieldForm } from '../../form/field-form.ts'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { CheckField, TextField } from '../../ui/field.tsx'
import { SubmitButton } from '../../ui/dialog.tsx'

const presets = ['25', '100', '500', '1000'] as const
const RANGE = `${formatUsdForPeople(MIN_TOP_UP)} to ${formatUsdForPeople(MAX_TOP_UP)}. Tax is added on the payment page.`

/** `onOpen`: the page to pay on is not ready yet. */
export function AddFunds({ onOpen }: { onOpen: (paymentId: string) => void }) {
  const mayPay = useMay('billing:write')
  const form = useFieldForm('createTopUp', {
    fields: ['amountUsd', 'saveCard'],
    initial: { amountUsd: '100' },
    refreshes: ['listTopUps'],
    onDone: (payment) => {
      if (payment.url === null) onOpen(payment.id)
      else location.assign(payment.url)
    },
  })
  const { amountUsd } = form.values
  const amount = parseUsd(amountUsd)
  return (
    <Card title="Add funds">
      <form onSubmit={form.submit} noValidate className="flex flex-col gap-4">
        <div className="grid items-end gap-x-6 gap-y-4 sm:grid-cols-2">
          <TextField label="Amount (USD)" inputMode="decimal" hint={RANGE} {...form.text('amountUsd')} />
          <fieldset className="min-w-0 self-start">
            <legend className="mb-1 text-sm font-medium">Common amounts</legend>
            <div className="flex flex-wrap gap-2">
              {presets.map((preset) => (
                <Button
                  key={preset}
                  aria-pressed={amountUsd === preset}
                  className={amountUsd === preset ? 'border-accent' : undefined}
                  onClick={() => form.set({ amountUsd: preset })}
                >
                  {money(preset).replace(/\.00$/, '')}
                </Button>
              ))}
            </div>
          </fieldset>
        </div>
        <CheckField label="Save the card for automatic top-up" {...form.check('saveCard')} />
        <FormProblems form={form} />
        <div>
          <SubmitButton
            look="primary"
            busy={form.isPending}
            disabledReason={mayPay ? undefined : missingScope('billing:write')}
          >
            {amount === undefined ? 'Continue to payment' : `Continue to pay ${formatUsdForPeople(amount)}`}
          </SubmitButton>
        </div>
      </form>
    </Card>
  )
}
