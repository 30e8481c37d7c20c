/** Adding a member and changing a member's role. */
import type { Reply } from '../../../src/client/client.ts'
import { useMe } from '../../api/me.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'

type Member = Reply<'listMembers'>['members'][number]
type Role = Member['role']

const roles: ReadonlyArray<{ value: Role; label: string; hint: string }> = [
  { value: 'viewer', label: 'Viewer', hint: 'Can view machines and billing, but change nothing.' },
  { value: 'member', label: 'Member', hint: 'Can do everything except manage members and account settings.' },
  { value: 'owner', label: 'Owner', hint: 'Can do everything.' },
]

export const roleField = ['role', { choices: roles }] as const

export function AddMemberDialog({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      operation="addMember"
      refreshes={['listMembers']}
      title="Add member"
      action="Add member"
      initial={{ role: 'member' }}
      fields={['email', 'name', roleField]}
      done={({ email }) => `Added ${email}`}
      onClose={onClose}
    />
  )
}

export function RoleDialog({ member, onClose }: { member: Member; onClose: () => void }) {
  const me = useMe()
  const warning = (
    <p className="text-sm font-medium text-bad">This is you. Only another owner can make you an owner again.</p>
  )
  return (
    <FieldDialog
      operation="changeMember"
      input={{ params: { id: member.id } }}
      refreshes={['listMembers', 'getMe']}
      title={`Role of ${member.email}`}
      action="Change role"
      before={member}
      fields={({ role }) => [roleField, member.id === me.id && role !== 'owner' && { show: warning }]}
      done={({ email, role }) => `${email} is now ${role === 'owner' ? 'an' : 'a'} ${role}`}
      onClose={onClose}
    />
  )
}
