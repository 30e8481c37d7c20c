/** People who sign in to this installation, and invitations to open an account. */
import { getRouteApi } from '@tanstack/react-router'
import type { Reply } from '../../../src/client/client.ts'
import { roleLabels } from '../../../src/view/account.ts'
import { count } from '../../../src/view/number.ts'
import { useMe } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { useSignInWays } from '../../api/sign-in.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { optionalText } from '../../form/read.ts'
import {
  actionColumn,
  actionsColumn,
  agoColumn,
  badgeColumn,
  dateColumn,
  textColumn,
  type Columns,
} from '../../list/column.tsx'
import { FilterBar } from '../../list/filter.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Section } from '../../ui/card.tsx'
import { useDialog, type OpenDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'

type Person = Reply<'listPeople'>['people'][number]
type Invitation = Reply<'listSignUpInvitations'>['invitations'][number]

const route = getRouteApi('/shell/operator/people')

const NO_MAIL = 'This server sends no e-mail. Set BERTH_PUBLIC_URL and BERTH_SMTP_URL first.'
const YOURSELF = 'You cannot disable yourself. Ask another operator.'
const YOUR_PASSKEYS = 'Remove your own passkeys under Security, or ask another operator.'

export function PeoplePage() {
  const me = useMe()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const dialog = useDialog()
  const answer = useSignInWays()
  const invited = useCall('listSignUpInvitations')
  const ways = answer.data
  const disabledReason = ways === undefined || ways.code ? undefined : NO_MAIL
  const { find = '' } = search
  // They are above the list, which should not move.
  if (answer.isPending || invited.isPending) {
    return (
      <Page>
        <Skeleton rows={8} />
      </Page>
    )
  }
  const actions = (person: Person) => <Actions person={person} isYourself={person.id === me.id} onOpen={dialog.open} />
  return (
    <Page
      intro="Everybody who belongs to an account or signed in. A disabled person cannot sign in, and their keys stop in every account."
      actions={
        <Button
          look="primary"
          disabledReason={disabledReason}
          onClick={() => dialog.open((close) => <InviteDialog onClose={close} />)}
        >
          Invite to open an account
        </Button>
      }
    >
      {ways?.people === false && (
        <Notice tone="warn">
          People cannot sign in as themselves yet, only with API keys. Set BERTH_PUBLIC_URL to the address of this
          server.
        </Notice>
      )}
      <SignUpInvitations
        open={invited.data?.invitations ?? []}
        onRevoke={(one) => dialog.open((close) => <RevokeDialog invitation={one} onClose={close} />)}
      />
      <FilterBar
        label="People"
        fields={[{ name: 'find', label: 'Search by address, name or ID' }]}
        search={search}
        onChange={(next) => void navigate({ search: (before) => ({ ...before, ...next }), replace: true })}
      />
      <PagedTable
        label="People"
        call="listPeople"
        query={{ q: optionalText(find) }}
        rows={({ people }) => people}
        rowKey="id"
        columns={[...columns, actionsColumn(actions)]}
        empty={<Empty title="No people match">Change the search text.</Empty>}
      />
      {dialog.shown}
    </Page>
  )
}

interface ActionsProps {
  readonly person: Person
  readonly isYourself: boolean
  readonly onOpen: OpenDialog['open']
}

function Actions({ person, isYourself, onOpen }: ActionsProps) {
  const { email, disabledAt } = person
  const verb = disabledAt === null ? 'Disable' : 'Enable'
  return (
    <>
      <Button
        aria-label={`Reset passkeys of ${email}`}
        disabledReason={isYourself ? YOUR_PASSKEYS : undefined}
        onClick={() => onOpen((close) => <ResetDialog person={person} onClose={close} />)}
      >
        Reset passkeys
      </Button>
      <Button
        aria-label={`${verb} ${email}`}
        disabledReason={isYourself ? YOURSELF : undefined}
        onClick={() => onOpen((close) => <ChangeDialog person={person} onClose={close} />)}
      >
        {verb}
      </Button>
    </>
  )
}

const columns: Columns<Person> = [
  textColumn('Person', ({ email, name }) => (
    <span className="block min-w-48 leading-tight">
      <span className="font-medium break-words">{email}</span>
      {name !== null && <span className="block text-muted">{name}</span>}
    </span>
  )),
  badgeColumn('Status', stateOf),
  textColumn('Accounts', ({ accounts }) => <Accounts accounts={accounts} />),
  agoColumn('Last seen', 'seenAt', { never: 'No session' }),
  dateColumn('Since', 'createdAt', { wideOnly: true }),
]

function stateOf({ disabledAt, provedAt }: Person) {
  if (disabledAt !== null) return { label: 'Disabled', tone: 'bad' } as const
  if (provedAt !== null) return { label: 'Active', tone: 'good' } as const
  return {
    label: 'Never signed in',
    hint: 'Others entered this address. Nobody has proved that it is theirs.',
  } as const
}

function Accounts({ accounts }: Pick<Person, 'accounts'>) {
  if (accounts.length === 0) return '—'
  return (
    <ul className="min-w-36">
      {accounts.map(({ accountId, accountName, role, state }) => (
        <li key={accountId}>
          <TextLink to="/operator/accounts/$id" params={{ id: accountId }}>
            {accountName}
          </TextLink>{' '}
          <span className="text-muted">{state === 'invited' ? 'invited' : roleLabels[role].toLowerCase()}</span>
        </li>
      ))}
    </ul>
  )
}

interface SignUpInvitationsProps {
  readonly open: readonly Invitation[]
  readonly onRevoke: (invitation: Invitation) => void
}

/** Nothing where none is open. */
function SignUpInvitations({ open, onRevoke }: SignUpInvitationsProps) {
  if (open.length === 0) return null
  const invitationColumns: Columns<Invitation> = [
    textColumn('Address', ({ email }) => <span className="font-medium break-all">{email}</span>),
    textColumn('From', 'sender', { wideOnly: true }),
    agoColumn('Sent', 'createdAt'),
    dateColumn('Valid until', 'expiresAt'),
    actionColumn('Revoke', ({ email }) => email, onRevoke),
  ]
  return (
    <Section title="Open invitations to open an account">
      <Table label="Open invitations" rows={open} rowKey="id" columns={invitationColumns} empty="" />
    </Section>
  )
}

function InviteDialog({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      operation="createSignUpInvitation"
      refreshes={['listSignUpInvitations', 'listMails']}
      title="Invite to open an account"
      action="Send invitation"
      fields={['email']}
      done={({ email }) => `Sent an invitation to ${email}`}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        They sign in with this address and become the owner of a new account. An older invitation to them ends.
      </p>
    </FieldDialog>
  )
}

function RevokeDialog({ invitation: { id, email }, onClose }: { invitation: Invitation; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Revoke the invitation of ${email}?`}
      action="Revoke"
      operation="revokeSignUpInvitation"
      input={{ params: { id } }}
      refreshes={['listSignUpInvitations']}
      done={`Revoked the invitation of ${email}`}
      onClose={onClose}
    >
      <p>The link in their mail stops working.</p>
    </ConfirmCall>
  )
}

function ChangeDialog({ person, onClose }: { person: Person; onClose: () => void }) {
  const { id, email } = person
  const disables = person.disabledAt === null
  return (
    <FieldDialog
      operation="changePerson"
      input={{ params: { id } }}
      refreshes={['listPeople', 'listAudit']}
      title={`${disables ? 'Disable' : 'Enable'} ${email}?`}
      action={disables ? 'Disable' : 'Enable'}
      look={disables ? 'danger' : 'primary'}
      fields={['reason']}
      body={(body) => ({ ...body, disabled: disables })}
      done={disables ? `Disabled ${email}` : `Enabled ${email}`}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        {disables
          ? 'Their sessions end, and their keys in every account stop within a second. Machines keep running.'
          : 'They can sign in again, and their keys work again.'}
      </p>
    </FieldDialog>
  )
}

function ResetDialog({ person: { id, email }, onClose }: { person: Person; onClose: () => void }) {
  return (
    <FieldDialog
      operation="resetFactors"
      input={{ params: { id } }}
      refreshes={['listPeople', 'listAudit']}
      title={`Reset the passkeys of ${email}?`}
      action="Reset passkeys"
      look="danger"
      fields={['reason']}
      done={({ passkeys }) => `Removed ${count(passkeys, 'passkey')} of ${email}`}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        Removes all their passkeys and recovery codes, and ends their sessions. They sign in with their address and add
        a new passkey. First make sure that it is they who ask: whoever reads their mail can sign in then.
      </p>
    </FieldDialog>
  )
}
