/** Whether sessions of members in the account need a passkey. It asks first, since it can stop others from working. */
import { count } from '../../../src/view/number.ts'
import { useMe } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { CheckField } from '../../ui/field.tsx'

export function RequiredPasskey({ disabledReason }: { disabledReason: string | undefined }) {
  const { requiresFactor } = useMe().account
  const dialog = useDialog()
  return (
    <>
      <CheckField
        label="Members must confirm with a passkey"
        hint="Every session of the console in this account needs one, also after single sign-on. API keys keep working."
        checked={requiresFactor}
        disabled={disabledReason !== undefined}
        title={disabledReason}
        onChange={() =>
          dialog.open((close) =>
            requiresFactor ? <OptionalDialog onClose={close} /> : <RequireDialog onClose={close} />,
          )
        }
      />
      {dialog.shown}
    </>
  )
}

function RequireDialog({ onClose }: { onClose: () => void }) {
  const members = useCall('listMembers').data?.members
  const without = members?.filter(({ hasPasskey }) => !hasPasskey).length ?? 0
  return (
    <ConfirmCall
      title="Require passkeys?"
      action="Require passkeys"
      operation="changeAccountSettings"
      input={{ body: { requiresFactor: true } }}
      refreshes={['getMe', 'getPerson']}
      done="Members must confirm with a passkey"
      onClose={onClose}
    >
      <p>
        Members who have not shown a passkey in their session are stopped within a second, until they show one or use a
        recovery code. Who has none adds one first. API keys and devices that are logged in keep working.
      </p>
      <p className="mt-2 font-medium text-ink">
        {without === 0
          ? 'All members have a passkey.'
          : `${count(without, 'member')} ${without === 1 ? 'has' : 'have'} no passkey yet.`}{' '}
        You need one yourself.
      </p>
    </ConfirmCall>
  )
}

function OptionalDialog({ onClose }: { onClose: () => void }) {
  return (
    <ConfirmCall
      title="Stop requiring passkeys?"
      action="Stop requiring"
      operation="changeAccountSettings"
      input={{ body: { requiresFactor: false } }}
      refreshes={['getMe', 'getPerson']}
      done="Members need no passkey any more"
      onClose={onClose}
    >
      <p>Members then work in this account after any sign-in, also with a code by email alone.</p>
    </ConfirmCall>
  )
}
