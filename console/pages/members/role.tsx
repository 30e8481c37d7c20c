/** Adding a member and changing a member's role. */
import type { Reply } from '../../../src/client/client.ts'
import { useMe } from '../../api/me.ts'
import { FormDialog } from '../../form/dialog.tsx'
import { optionalText } from '../../form/read.ts'
import { useCallForm, type Form } from '../../form/use-form.ts'
import { SelectField, TextField } from '../../ui/field.tsx'
import { toast } from '../../ui/toast.tsx'

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
  const form = useCallForm('addMember', {
    refreshes: ['listMembers'],
    initial: { email: '', name: '', role: 'member' },
    body: ({ email, name, role }) => ({ email: email.trim(), role: role as Role, name: optionalText(name) }),
    onDone: ({ email }) => {
      toast(`Added ${email}`)
      onClose()
    },
  })
  return (
    <FormDialog title="Add member" form={form} action="Add member" onClose={onClose}>
      <TextField label="Email" type="email" maxLength={255} {...form.text('email')} />
      <TextField label="Name" maxLength={255} placeholder="Optional" {...form.text('name')} />
      <RoleField form={form} />
    </FormDialog>
  )
}

export function RoleDialog({ member, onClose }: { member: Member; onClose: () => void }) {
  const me = useMe()
  const form = useCallForm('changeMember', {
    input: { params: { id: member.id } },
    refreshes: ['listMembers', 'getMe'],
    initial: { role: member.role },
    body: ({ role }) => ({ role }),
    onDone: ({ email, role }) => {
      toast(`${email} is now ${role === 'owner' ? 'an' : 'a'} ${role}`)
      onClose()
    },
  })
  return (
    <FormDialog
      title={`Role of ${member.email}`}
      form={form}
      action="Change role"
      disabledReason={form.isDirty ? undefined : 'Choose another role first'}
      onClose={onClose}
    >
      <RoleField form={form} />
      {member.id === me.id && form.values.role !== 'owner' && (
        <p className="text-sm font-medium text-bad">This is you. Only another owner can make you an owner again.</p>
      )}
    </FormDialog>
  )
}
