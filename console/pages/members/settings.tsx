/** What the account has chosen for itself: whether the texts of requests are kept. */
import { useMe } from '../../api/me.ts'
import { useAction } from '../../api/query.ts'
import { Card } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { CheckField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'

/** `whyNot`: in a sentence; undefined: it may be changed. */
export function AccountSettings({ whyNot }: { whyNot: string | undefined }) {
  const { account } = useMe()
  const change = useAction('changeAccountSettings', ['getMe'])
  const choose = (keepsBodies: boolean): void =>
    change.mutate(
      { body: { keepsBodies } },
      { onSuccess: () => toast(keepsBodies ? 'Texts are kept from now on' : 'Texts are no longer kept') },
    )
  return (
    <Card title={`Settings of ${account.name}`}>
      <div className="flex flex-col gap-3">
        <CheckField
          label="Keep the texts of requests to models"
          hint="From then on requests and answers can be read under Requests for seven days. They are stored sealed. Without it only counts, times and costs are kept."
          checked={account.keepsBodies}
          disabled={whyNot !== undefined || change.isPending}
          title={whyNot}
          onChange={(event) => choose(event.target.checked)}
        />
        {whyNot !== undefined && <p className="text-sm text-muted">{whyNot}</p>}
        {change.error !== null && <ErrorNotice error={change.error} />}
      </div>
    </Card>
  )
}
