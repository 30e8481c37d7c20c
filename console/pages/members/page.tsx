/** Members of the account and their roles, and account settings. */
import { getRouteApi } from '@tanstack/react-router'
import type { Reply } from '../../../src/client/client.ts'
import type { Tone } from '../../../src/view/tone.ts'
import { missingScope, useMay, useMe } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { useSignInWays } from '../../api/sign-in.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { actionsColumn, badgeColumn, dateColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { roleLabels } from '../../../src/view/account.ts'
import { ProviderOutcome } from '../../shell/provider-outcome.tsx'
import { Button } from '../../ui/button.tsx'
import { useDialog, type OpenDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Invitations, InviteDialog } from './invitations.tsx'
import { AccountSso } from './sso.tsx'
import { AccountSettings } from './settings.tsx'
import { AddMemberDialog, RoleDialog } from './role.tsx'

type Member = Reply<'listMembers'>['members'][number]

const roleTones = { owner: 'info', member: 'good', viewer: 'plain' } as const satisfies Record<Member['role'], Tone>
const states = {
  active: { label: 'Active', tone: 'good' },
  invited: { label: 'Not accepted yet', hint: 'Keys that others gave them work.' },
} as const
const ONLY_OWNERS = 'Only account owners can manage members.'
const LAST_OWNER = 'An account needs at least one owner. Make someone else an owner first.'

const route = getRouteApi('/shell/members')

export function MembersPage() {
  const ways = useSignInWays()
  // The page is another one where people sign in; nothing should move.
  if (ways.isPending) {
    return (
      <Page>
        <Skeleton rows={4} />
      </Page>
    )
  }
  const isForPeople = ways.data?.people === true
  return <Members isForPeople={isForPeople} invites={isForPeople && ways.data?.code === true} />
}

const INTRO =
  'Members sign in with API keys; there are no passwords. Adding a member sends no e-mail: give them a key. Notifications are mailed to members who have confirmed their address.'
const INTRO_OF_PEOPLE = 'People who can act in this account. Invite them by email: they sign in with their own address.'

/** `isForPeople`: they sign in as themselves. `invites`: by email. */
function Members({ isForPeople, invites }: { isForPeople: boolean; invites: boolean }) {
  const me = useMe()
  const mayManage = useMay('keys')
  const dialog = useDialog()
  const disabledReason = me.role !== 'owner' ? ONLY_OWNERS : mayManage ? undefined : missingScope('keys')
  const actions = (member: Member) => <Actions member={member} dialog={dialog} disabledReason={disabledReason} />
  const add = (
    <Button
      look="primary"
      disabledReason={disabledReason}
      onClick={() =>
        dialog.open((close) => (invites ? <InviteDialog onClose={close} /> : <AddMemberDialog onClose={close} />))
      }
    >
      {invites ? 'Invite' : 'Add member'}
    </Button>
  )
  return (
    <Page intro={invites ? INTRO_OF_PEOPLE : INTRO} actions={add}>
      {disabledReason !== undefined && (
        <p className="text-sm text-muted">
          {disabledReason}
          {disabledReason === ONLY_OWNERS && ` Your role is ${me.role}.`}
        </p>
      )}
      <Outcome />
      <ListTable
        label="Members"
        call="listMembers"
        rows={({ members }) => members}
        rowKey="id"
        columns={[...columns, actionsColumn(actions)]}
        empty={<Empty title="No members" />}
        after={
          <>
            {invites && <Invitations disabledReason={disabledReason} />}
            {isForPeople && <AccountSso disabledReason={disabledReason} />}
            <AccountSettings
              isForPeople={isForPeople}
              disabledReason={
                disabledReason === ONLY_OWNERS ? 'Only account owners can change settings.' : disabledReason
              }
            />
          </>
        }
      />
      {dialog.shown}
    </Page>
  )
}

/** The result of a test of the account's provider, which the address of the page names. */
function Outcome() {
  const { tested, error, provider } = route.useSearch()
  const success = tested === undefined ? undefined : 'The sign-in at the provider works. You can require it now.'
  return <ProviderOutcome error={error} provider={provider} success={success} />
}

interface ActionsProps {
  readonly member: Member
  readonly dialog: OpenDialog
  readonly disabledReason: string | undefined
}

function Actions({ member, dialog, disabledReason }: ActionsProps) {
  const owners = useCall('listMembers').data?.members.filter(({ role }) => role === 'owner') ?? []
  const isLastOwner = owners.length === 1 && owners[0]?.id === member.id
  const reason = disabledReason ?? (isLastOwner ? LAST_OWNER : undefined)
  return (
    <>
      <Button
        disabledReason={reason}
        aria-label={`Change role of ${member.email}`}
        onClick={() => dialog.open((close) => <RoleDialog member={member} onClose={close} />)}
      >
        Change role
      </Button>
      <Button
        disabledReason={reason}
        aria-label={`Remove ${member.email}`}
        onClick={() => dialog.open((close) => <RemoveDialog member={member} onClose={close} />)}
      >
        Remove
      </Button>
    </>
  )
}

const columns: Columns<Member> = [
  textColumn('Member', (member) => <MemberName member={member} />),
  badgeColumn('Role', ({ role }) => [roleLabels[role], roleTones[role]]),
  badgeColumn('State', ({ state }) => states[state], { wideOnly: true }),
  dateColumn('Since', 'createdAt', { wideOnly: true }),
]

function MemberName({ member: { id, email, name } }: { member: Member }) {
  const me = useMe()
  return (
    <div className="min-w-40">
      <p className="font-medium break-words">
        {email}
        {id === me.id && <span className="font-normal text-muted"> (you)</span>}
      </p>
      {name !== null && <p className="text-muted">{name}</p>}
    </div>
  )
}

function RemoveDialog({ member, onClose }: { member: Member; onClose: () => void }) {
  const me = useMe()
  return (
    <ConfirmCall
      title={`Remove ${member.email}?`}
      action="Remove"
      operation="removeMember"
      input={{ params: { id: member.id } }}
      refreshes={['listMembers', 'listApiKeys']}
      done={`Removed ${member.email}`}
      onClose={onClose}
    >
      <p>Their keys in this account stop working within a second. Machines they rented keep running.</p>
      {member.id === me.id && (
        <p className="mt-2 font-medium text-bad">This is you. You will be signed out and lose access.</p>
      )}
    </ConfirmCall>
  )
}
