/** Account settings: which texts are stored, and whether members must show a passkey. */
import { useMe } from '../../api/me.ts'
import { useAction } from '../../api/query.ts'
import { Card } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { CheckField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'
import { RequiredPasskey } from './required-passkey.tsx'

interface AccountSettingsProps {
  /** Members sign in as themselves. */
  readonly isForPeople: boolean
  readonly disabledReason: string | undefined
}

export function AccountSettings({ isForPeople, disabledReason }: AccountSettingsProps) {
  const { account } = useMe()
  const change = useAction('changeAccountSettings', ['getMe'])
  const choose = (body: { keepsBodies: boolean } | { storesResponses: boolean }, success: string): void =>
    change.mutate({ body }, { onSuccess: () => toast(success) })
  return (
    <Card title={`Settings for ${account.name}`}>
      <div className="flex flex-col gap-3">
        <CheckField
          label="Store request and response texts"
          hint="Keeps texts encrypted for seven days, readable under Requests. Otherwise only counts, times and costs are stored."
          checked={account.keepsBodies}
          disabled={disabledReason !== undefined || change.isPending}
          title={disabledReason}
          onChange={({ target: { checked } }) =>
            choose(
              { keepsBodies: checked },
              checked ? 'Request texts are now stored' : 'Request texts are no longer stored',
            )
          }
        />
        <CheckField
          label="Store responses"
          hint="Programs that use /v1/responses can continue a conversation by its id. Otherwise they have to send all of it each time."
          checked={account.storesResponses}
          disabled={disabledReason !== undefined || change.isPending}
          title={disabledReason}
          onChange={({ target: { checked } }) =>
            choose(
              { storesResponses: checked },
              checked ? 'Responses are now stored' : 'Responses are no longer stored',
            )
          }
        />
        {isForPeople && <RequiredPasskey disabledReason={disabledReason} />}
        {disabledReason !== undefined && <p className="text-sm text-muted">{disabledReason}</p>}
        {change.error !== null && <ErrorNotice error={change.error} />}
      </div>
    </Card>
  )
}
