/** Adding a member and changing a member's role. */
import type { Reply } from '../../../src/client/client.ts'
import { useMe } from '../../api/me.ts'
import { CallDialog } from '../../form/dialog.tsx'
import { optionalText } from '../../form/read.ts'
import type { Form } from '../../form/use-form.ts'
import { SelectField, TextField } from '../../ui/field.tsx'

type Member = Reply<'listMembers'>['members'][number]
type Role = Member['role']

const roles: ReadonlyArray<{ value: Role; label: string; hint: string }> = [
  { value: 'viewer', label: 'Viewer', hint: 'Can view machines and billing, but change nothing.' },
  { value: 'member', label: 'Member', hint: 'Can do everything except manage members and account settings.' },
  { value: 'owner', label: 'Owner', hint: 'Can do everything.' },
]

function RoleField({ form }: { form: Pick<Form<{ readonly role: string }>, 'text' | 'values'> }) {
  const hint = roles.find(({ value }) => value === form.values.role)?.hint
  return <SelectField label="Role" choices={roles} hint={hint} {...form.text('role')} />
}

export function AddMemberDialog({ onClose }: { onClose: () => void }) {
  return (
    <CallDialog
      operation="addMember"
      refreshes={['listMembers']}
      title="Add member"
      action="Add member"
      initial={{ email: '', name: '', role: 'member' }}
      body={({ email, name, role }) => ({ email: email.trim(), role: role as Role, name: optionalText(name) })}
      done={({ email }) => `Added ${email}`}
      onClose={onClose}
    >
      {(form) => (
        <>
          <TextField label="Email" type="email" maxLength={255} {...form.text('email')} />
          <TextField label="Name" maxLength={255} placeholder="Optional" {...form.text('name')} />
          <RoleField form={form} />
        </>
      )}
    </CallDialog>
  )
}

export function RoleDialog({ member, onClose }: { member: Member; onClose: () => void }) {
  const me = useMe()
  return (
    <CallDialog
      operation="changeMember"
      input={{ params: { id: member.id } }}
      refreshes={['listMembers', 'getMe']}
      title={`Role of ${member.email}`}
      action="Change role"
      initial={{ role: member.role }}
      body={({ role }) => ({ role })}
      disabledReason={(form) => (form.isDirty ? undefined : 'Choose another role first')}
      done={({ email, role }) => `${email} is now ${role === 'owner' ? 'an' : 'a'} ${role}`}
      onClose={onClose}
    >
      {(form) => (
        <>
          <RoleField form={form} />
          {member.id === me.id && form.values.role !== 'owner' && (
            <p className="text-sm font-medium text-bad">This is you. Only another owner can make you an owner again.</p>
          )}
        </>
      )}
    </CallDialog>
  )
}
