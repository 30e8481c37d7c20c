/** Account settings: whether request and response texts are stored. */
import { useMe } from '../../api/me.ts'
import { useAction } from '../../api/query.ts'
import { Card } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { CheckField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'

export function AccountSettings({ disabledReason }: { disabledReason: string | undefined }) {
  const { account } = useMe()
  const change = useAction('changeAccountSettings', ['getMe'])
  const choose = (keepsBodies: boolean): void =>
    change.mutate(
      { body: { keepsBodies } },
      { onSuccess: () => toast(keepsBodies ? 'Request texts are now stored' : 'Request texts are no longer stored') },
    )
  return (
    <Card title={`Settings for ${account.name}`}>
      <div className="flex flex-col gap-3">
        <CheckField
          label="Store request and response texts"
          hint="Keeps texts encrypted for seven days, readable under Requests. Otherwise only counts, times and costs are stored."
          checked={account.keepsBodies}
          disabled={disabledReason !== undefined || change.isPending}
          title={disabledReason}
          onChange={(event) => choose(event.target.checked)}
        />
        {disabledReason !== undefined && <p className="text-sm text-muted">{disabledReason}</p>}
        {change.error !== null && <ErrorNotice error={change.error} />}
      </div>
    </Card>
  )
}
