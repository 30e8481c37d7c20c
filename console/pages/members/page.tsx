/** The people of the account and what each may do; and what the account has chosen for itself. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localDate, localTime } from '../../../src/view/time.ts'
import type { Tone } from '../../../src/view/tone.ts'
import { useMay, useMe } from '../../api/me.ts'
import { useAction, useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { roleLabels } from '../../../src/view/account.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { ConfirmDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import { AccountSettings } from './settings.tsx'
import { AddMemberDialog, RoleDialog } from './role.tsx'

type Member = Reply<'listMembers'>['members'][number]

const roleTones = { owner: 'info', member: 'good', viewer: 'plain' } as const satisfies Record<Member['role'], Tone>
const ONLY_OWNERS = 'Only an owner of the account changes who is in it.'
const NO_SCOPE = 'Your key lacks the scope keys, with which people are managed.'
const LAST_OWNER = 'An account keeps at least one owner. Make somebody else owner first.'

export function MembersPage() {
  const me = useMe()
  const mayManage = useMay('keys')
  const members = useCall('listMembers')
  const [isAdding, setAdding] = useState(false)
  const [changing, setChanging] = useState<Member>()
  const [removing, setRemoving] = useState<Member>()
  const whyNot = me.role !== 'owner' ? ONLY_OWNERS : mayManage ? undefined : NO_SCOPE
  return (
    <Page
      intro="People of the account. They act through API keys; there is no login with a password, and nothing is sent to them."
      actions={
        <Button look="primary" disabledReason={whyNot} onClick={() => setAdding(true)}>
          Add a person
        </Button>
      }
    >
      {whyNot !== undefined && (
        <p className="text-sm text-muted">
          {whyNot}
          {whyNot === ONLY_OWNERS && ` You are a ${me.role} here.`}
        </p>
      )}
      <Answer of={members}>
        {({ members: rows }) => (
          <>
            <Table
              label="Members"
              columns={columnsFor({ rows, me, whyNot, onChange: setChanging, onRemove: setRemoving })}
              rows={rows}
              rowKey={(member) => member.id}
              empty={<Empty title="Nobody is in this account" />}
            />
            <AccountSettings
              disabledReason={whyNot === ONLY_OWNERS ? 'Only an owner of the account changes its settings.' : whyNot}
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
  readonly whyNot: string | undefined
  readonly onChange: (member: Member) => void
  readonly onRemove: (member: Member) => void
}

function columnsFor({ rows, me, whyNot, onChange, onRemove }: ColumnInput): ReadonlyArray<Column<Member>> {
  const hasOtherOwner = (member: Member): boolean => rows.some((one) => one.role === 'owner' && one.id !== member.id)
  const whyNotOf = (member: Member): string | undefined =>
    whyNot ?? (member.role === 'owner' && !hasOtherOwner(member) ? LAST_OWNER : undefined)
  return [
    {
      name: 'who',
      header: 'Who',
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
        const reason = whyNotOf(member)
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
  const remove = useAction('removeMember', ['listMembers', 'listApiKeys'])
  const confirm = (): void =>
    remove.mutate(
      { params: { id: member.id } },
      {
        onSuccess: () => {
          toast(`${member.email} is removed`)
          onClose()
        },
      },
    )
  return (
    <ConfirmDialog
      title={`Remove ${member.email}?`}
      action="Remove"
      busy={remove.isPending}
      error={remove.error}
      onConfirm={confirm}
      onClose={onClose}
    >
      <p>The keys made for them in this account stop within a second. Machines that they rented go on.</p>
      {member.id === me.id && (
        <p className="mt-2 font-medium text-bad">
          This is you: you will be signed out and cannot come back by yourself.
        </p>
      )}
    </ConfirmDialog>
  )
}
