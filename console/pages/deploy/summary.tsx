/** The name to call, the price, the budget and the button, beside the steps. */
import { useMe } from '../../api/me.ts'
import { FormProblems } from '../../form/dialog.tsx'
import { Fields } from '../../form/fields.tsx'
import { Button } from '../../ui/button.tsx'
import { Card, Code } from '../../ui/card.tsx'
import type { DeployOrder } from './order.ts'
import { Price } from './price.tsx'

export function Summary({ order, disabledReason }: { order: DeployOrder; disabledReason: string | undefined }) {
  const { form, gpus, quoteBody } = order
  const { account } = useMe()
  const { forEveryone, model, name } = form.values
  const called = forEveryone ? model.trim() || 'NAME' : `${account.id}/${name.trim() || 'NAME'}`
  return (
    <Card title="Price" className="lg:sticky lg:top-18">
      <div className="flex flex-col gap-4">
        <Price gpus={gpus} values={form.values} body={quoteBody} />
        <p className="text-sm">
          <span className="text-muted">Call it as </span>
          <Code text={called} />
        </p>
        <Fields form={form} entries={[['hourlyBudgetUsd', { placeholder: forEveryone ? 'Required' : 'None' }]]} />
        <FormProblems form={form} />
        {/* Fixed to the bottom of the screen on phones, so that the button is always in reach. */}
        <div className="flex flex-col max-lg:fixed max-lg:inset-x-0 max-lg:bottom-0 max-lg:z-20 max-lg:border-t max-lg:border-line max-lg:bg-surface max-lg:p-3">
          <Button type="submit" look="primary" busy={form.isPending} disabledReason={disabledReason}>
            Deploy
          </Button>
        </div>
      </div>
    </Card>
  )
}
