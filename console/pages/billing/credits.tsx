/** Credits that were given: trial, vouchers, gifts; redeeming a voucher, and saving a card for the trial. */
import type { Reply } from '../../../src/client/client.ts'
import { creditLabels, trialText } from '../../../src/view/credit.ts'
import { money } from '../../../src/view/money.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useAction, useCall } from '../../api/query.ts'
import { FormProblems } from '../../form/dialog.tsx'
import { useFieldForm } from '../../form/field-form.ts'
import { dateColumn, moneyColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { SubmitButton } from '../../ui/dialog.tsx'
import { TextField } from '../../ui/field.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'

type Credits = Reply<'listCredits'>

const refreshes = ['listCredits', 'getCustomerBalance'] as const

const columns: Columns<Credits['credits'][number]> = [
  textColumn('Credit', ({ kind }) => creditLabels[kind]),
  moneyColumn('Amount', 'amountUsd'),
  moneyColumn('Unspent', 'unspentUsd'),
  dateColumn('Since', 'grantedAt', { wideOnly: true }),
  textColumn('Expires', ({ expiresAt }) => (expiresAt === null ? 'Never' : expiresAt.slice(0, 10))),
]

/** `code`: of the link that the customer has opened. */
export function CreditsCard({ code, onRedeemed }: { code: string | undefined; onRedeemed: () => void }) {
  const credits = useCall('listCredits')
  return (
    <Card title="Credits">
      <div className="flex flex-col gap-4">
        <Redeem key={code} code={code} onRedeemed={onRedeemed} />
        <Answer of={credits} skeleton={<Skeleton rows={2} />}>
          {({ trial, credits: rows }) => (
            <>
              {trial?.state === 'available' && <Trial trial={trial} />}
              {rows.length > 0 && <Table label="Credits" rows={rows} rowKey="id" columns={columns} empty={null} />}
              <p className="text-sm text-muted">
                Credits are spent before paid money, the first to expire first. Refunds to a card leave them out.
              </p>
            </>
          )}
        </Answer>
      </div>
    </Card>
  )
}

function Redeem({ code = '', onRedeemed }: { code: string | undefined; onRedeemed: () => void }) {
  const mayPay = useMay('billing:write')
  const form = useFieldForm('redeemVoucher', {
    fields: ['code'],
    initial: { code },
    refreshes,
    onDone: ({ amountUsd }) => {
      toast(`Added ${money(amountUsd)}`)
      onRedeemed()
    },
  })
  return (
    <form onSubmit={form.submit} noValidate className="flex flex-col gap-3">
      <div className="flex flex-wrap items-end gap-3">
        <TextField label="Voucher code" autoComplete="off" spellCheck={false} {...form.text('code')} />
        <SubmitButton busy={form.isPending} disabledReason={mayPay ? undefined : missingScope('billing:write')}>
          Redeem
        </SubmitButton>
      </div>
      <FormProblems form={form} />
    </form>
  )
}

function Trial({ trial }: { trial: NonNullable<Credits['trial']> }) {
  const mayPay = useMay('billing:write')
  const setup = useAction('createCardSetup')
  return (
    <div className="flex flex-wrap items-center justify-between gap-3 rounded-md border border-line px-3 py-2 text-sm">
      <span>{trialText(trial)}</span>
      <Button
        busy={setup.isPending}
        disabledReason={mayPay ? undefined : missingScope('billing:write')}
        onClick={() =>
          setup.mutate(
            {},
            {
              onSuccess: ({ url }) =>
                url === null ? toast('The page is not ready yet. Try again in a minute.') : location.assign(url),
              onError: (error) => toast(error.message, 'bad'),
            },
          )
        }
      >
        Save a card
      </Button>
    </div>
  )
}
