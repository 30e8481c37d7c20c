/** Members of the account and their roles, and account settings. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localDate, localTime } from '../../../src/view/time.ts'
import type { Tone } from '../../../src/view/tone.ts'
import { missingScope, useMay, useMe } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Answer } from '../../ui/answer.tsx'
import { roleLabels } from '../../../src/view/account.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { AccountSettings } from './settings.tsx'
import { AddMemberDialog, RoleDialog } from './role.tsx'

type Member = Reply<'listMembers'>['members'][number]

const roleTones = { owner: 'info', member: 'good', viewer: 'plain' } as const satisfies Record<Member['role'], Tone>
const ONLY_OWNERS = 'Only account owners can manage members.'
const LAST_OWNER = 'An account needs at least one owner. Make someone else an owner first.'

export function MembersPage() {
  const me = useMe()
  const mayManage = useMay('keys')
  const members = useCall('listMembers')
  const [isAdding, setAdding] = useState(false)
  const [changing, setChanging] = useState<Member>()
  const [removing, setRemoving] = useState<Member>()
  const disabledReason = me.role !== 'owner' ? ONLY_OWNERS : mayManage ? undefined : missingScope('keys')
  return (
    <Page
      intro="Members sign in with API keys. There are no passwords, and Berth sends no email."
      actions={
        <Button look="primary" disabledReason={disabledReason} onClick={() => setAdding(true)}>
          Add member
        </Button>
      }
    >
      {disabledReason !== undefined && (
        <p className="text-sm text-muted">
          {disabledReason}
          {disabledReason === ONLY_OWNERS && ` Your role is ${me.role}.`}
        </p>
      )}
      <Answer of={members}>
        {({ members: rows }) => (
          <>
            <Table
              label="Members"
              columns={columnsFor({ rows, me, disabledReason, onChange: setChanging, onRemove: setRemoving })}
              rows={rows}
              rowKey={(member) => member.id}
              empty={<Empty title="No members" />}
            />
            <AccountSettings
              disabledReason={
                disabledReason === ONLY_OWNERS ? 'Only account owners can change settings.' : disabledReason
              }
            />
          </>
        )}
      </Answer>
      {isAdding && <AddMemberDialog onClose={() => setAdding(false)} />}
      {changing !== undefined && <RoleDialog member={changing} onClose={() => setChanging(undefined)} />}
      {removing !== undefined && <RemoveDialog member={removing} onClose={() => setRemoving(undefined)} />}
    </Page>
  )
}

interface ColumnInput {
  readonly rows: readonly Member[]
  readonly me: Reply<'getMe'>
  readonly disabledReason: string | undefined
  readonly onChange: (member: Member) => void
  readonly onRemove: (member: Member) => void
}

function columnsFor({ rows, me, disabledReason, onChange, onRemove }: ColumnInput): ReadonlyArray<Column<Member>> {
  const hasOtherOwner = (member: Member): boolean => rows.some((one) => one.role === 'owner' && one.id !== member.id)
  const disabledReasonOf = (member: Member): string | undefined =>
    disabledReason ?? (member.role === 'owner' && !hasOtherOwner(member) ? LAST_OWNER : undefined)
  return [
    {
      name: 'who',
      header: 'Member',
      cell: (member) => (
        <div className="min-w-40">
          <p className="font-medium break-words">
            {member.email}
            {member.id === me.id && <span className="font-normal text-muted"> (you)</span>}
          </p>
          {member.name !== null && <p className="text-muted">{member.name}</p>}
        </div>
      ),
    },
    {
      name: 'role',
      header: 'Role',
      cell: (member) => <Badge tone={roleTones[member.role]}>{roleLabels[member.role]}</Badge>,
    },
    {
      name: 'since',
      header: 'Since',
      wideOnly: true,
      cell: (member) => <span title={localTime(member.createdAt)}>{localDate(member.createdAt)}</span>,
    },
    {
      name: 'actions',
      header: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (member) => {
        const reason = disabledReasonOf(member)
        return (
          <div className="flex justify-end gap-2">
            <Button
              disabledReason={reason}
              aria-label={`Change role of ${member.email}`}
              onClick={() => onChange(member)}
            >
              Change role
            </Button>
            <Button disabledReason={reason} aria-label={`Remove ${member.email}`} onClick={() => onRemove(member)}>
              Remove
            </Button>
          </div>
        )
      },
    },
  ]
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
