/** Open invitations to the account. */
import type { Reply } from '../../../src/client/client.ts'
import { roleLabels } from '../../../src/view/account.ts'
import { useAction } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { actionsColumn, agoColumn, dateColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Button } from '../../ui/button.tsx'
import { Section } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { toast } from '../../ui/toast.tsx'
import { roleField } from './role.tsx'

type Invitation = Reply<'listInvitations'>['invitations'][number]

export function Invitations({ disabledReason }: { disabledReason: string | undefined }) {
  const dialog = useDialog()
  const actions = (invitation: Invitation) => (
    <>
      <SendAgain invitation={invitation} disabledReason={disabledReason} />
      <Button
        disabledReason={disabledReason}
        aria-label={`Revoke the invitation of ${invitation.email}`}
        onClick={() => dialog.open((close) => <RevokeDialog invitation={invitation} onClose={close} />)}
      >
        Revoke
      </Button>
    </>
  )
  return (
    <Section title="Open invitations">
      <ListTable
        label="Open invitations"
        call="listInvitations"
        rows={({ invitations }) => invitations}
        rowKey="id"
        columns={[...columns, actionsColumn(actions)]}
        skeleton={1}
        empty="No invitation is open."
      />
      {dialog.shown}
    </Section>
  )
}

const columns: Columns<Invitation> = [
  textColumn('Address', ({ email }) => <span className="block min-w-40 font-medium break-words">{email}</span>),
  textColumn('Role', ({ role }) => roleLabels[role]),
  textColumn('From', 'sender', { wideOnly: true }),
  agoColumn('Sent', 'createdAt'),
  dateColumn('Valid until', 'expiresAt', { wideOnly: true }),
]

/** The link of the message before stops working. */
function SendAgain({
  invitation: { email, role },
  disabledReason,
}: {
  invitation: Invitation
  disabledReason: string | undefined
}) {
  const send = useAction('createInvitation', ['listInvitations'])
  return (
    <Button
      busy={send.isPending}
      disabledReason={disabledReason}
      aria-label={`Send again to ${email}`}
      onClick={() =>
        send.mutate(
          { body: { email, role } },
          {
            onSuccess: () => toast(`Sent to ${email} again. The link before does not work any more`),
            onError: (error) => toast(error.message, 'bad'),
          },
        )
      }
    >
      Send again
    </Button>
  )
}

export function InviteDialog({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      operation="createInvitation"
      refreshes={['listInvitations', 'listMembers']}
      title="Invite a person"
      action="Send invitation"
      initial={{ role: 'member' }}
      fields={['email', roleField]}
      done={({ email }) => `Sent an invitation to ${email}`}
      onClose={onClose}
    >
      <p className="text-sm text-muted">They get a mail, and accept in the console after they proved the address.</p>
    </FieldDialog>
  )
}

function RevokeDialog({ invitation: { id, email }, onClose }: { invitation: Invitation; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Revoke the invitation of ${email}?`}
      action="Revoke"
      operation="revokeInvitation"
      input={{ params: { id } }}
      refreshes={['listInvitations']}
      done={`Revoked the invitation of ${email}`}
      onClose={onClose}
    >
      <p>The link in their mail stops working. You can invite them again.</p>
    </ConfirmCall>
  )
}
