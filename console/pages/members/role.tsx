/** Adding a person and changing what they may do. */
import { useState, type FormEvent } from 'react'
import type { CallInput, Reply } from '../../../src/client/client.ts'
import { useMe } from '../../api/me.ts'
import { useAction } from '../../api/query.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { toast } from '../../ui/toast.tsx'

type Member = Reply<'listMembers'>['members'][number]
type Role = Member['role']

const roles: ReadonlyArray<{ value: Role; label: string; hint: string }> = [
  { value: 'viewer', label: 'Viewer', hint: 'Keys of a viewer read machines and money, and change nothing.' },
  {
    value: 'member',
    label: 'Member',
    hint: 'A member does everything but change who is in the account and its settings.',
  },
  { value: 'owner', label: 'Owner', hint: 'An owner does everything.' },
]

function RoleField({ role, onChange }: { role: Role; onChange: (role: Role) => void }) {
  return (
    <SelectField
      label="Role"
      choices={roles}
      value={role}
      hint={roles.find((one) => one.value === role)?.hint}
      onChange={(event) => onChange(roles.find((one) => one.value === event.target.value)?.value ?? role)}
    />
  )
}

export function AddMemberDialog({ onClose }: { onClose: () => void }) {
  const [email, setEmail] = useState('')
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('member')
  const [wasTried, setTried] = useState(false)
  const add = useAction('addMember', ['listMembers'])
  const fault = /^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(email.trim())
    ? undefined
    : 'An e-mail address, such as name@example.com.'
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    if (fault !== undefined) return
    const body: CallInput<'addMember'>['body'] = {
      email: email.trim(),
      role,
      ...(name.trim() === '' ? {} : { name: name.trim() }),
    }
    add.mutate(
      { body },
      {
        onSuccess: (added) => {
          toast(`${added.email} is in the account`)
          onClose()
        },
      },
    )
  }
  const left = errorBesideFields(add.error, ['email', 'name'])
  return (
    <Dialog title="Add a person" onClose={onClose}>
      <form onSubmit={submit} noValidate className="flex flex-col gap-4">
        <TextField
          label="E-mail"
          type="email"
          maxLength={255}
          value={email}
          error={(wasTried ? fault : undefined) ?? fieldError(add.error, 'email')}
          onChange={(event) => setEmail(event.target.value)}
        />
        <TextField
          label="Name"
          maxLength={255}
          placeholder="Optional"
          value={name}
          error={fieldError(add.error, 'name')}
          onChange={(event) => setName(event.target.value)}
        />
        <RoleField role={role} onChange={setRole} />
        {left !== null && <ErrorNotice error={left} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={add.isPending}>Add</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

export function RoleDialog({ member, onClose }: { member: Member; onClose: () => void }) {
  const me = useMe()
  const [role, setRole] = useState(member.role)
  const change = useAction('changeMember', ['listMembers', 'getMe'])
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    change.mutate(
      { params: { id: member.id }, body: { role } },
      {
        onSuccess: (changed) => {
          toast(`${changed.email} is now ${roles.find((one) => one.value === changed.role)?.label.toLowerCase()}`)
          onClose()
        },
      },
    )
  }
  return (
    <Dialog title={`Role of ${member.email}`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <RoleField role={role} onChange={setRole} />
        {member.id === me.id && role !== 'owner' && (
          <p className="text-sm font-medium text-bad">This is you: only another owner can make you owner again.</p>
        )}
        {change.error !== null && <ErrorNotice error={change.error} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={change.isPending} disabled={role === member.role}>
            Change
          </SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}
