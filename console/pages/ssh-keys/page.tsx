/** SSH keys: what new machines of the account let in. */
import { useState, type FormEvent } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localDate, localTime } from '../../../src/view/time.ts'
import { useMay } from '../../api/me.ts'
import { useAction, useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { CancelButton, ConfirmDialog, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { TextArea, TextField } from '../../ui/field.tsx'
import { errorBesideFields, fieldError } from '../../ui/field-error.ts'
import { Page } from '../../ui/page.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import { sshKeyComment, sshKeyFault } from './text.ts'

type SshKey = Reply<'listSshKeys'>['sshKeys'][number]

const WHY_NOT = 'Your key only reads. Changing SSH keys needs the scope compute:write or keys.'

export function SshKeysPage() {
  const mayRent = useMay('compute:write')
  const mayManage = useMay('keys')
  const mayChange = mayRent || mayManage
  const keys = useCall('listSshKeys')
  const [isAdding, setAdding] = useState(false)
  const [deleting, setDeleting] = useState<SshKey>()
  const add = (
    <Button look="primary" disabledReason={mayChange ? undefined : WHY_NOT} onClick={() => setAdding(true)}>
      Add a key
    </Button>
  )
  return (
    <Page
      intro="New machines let in whoever holds one of these. Machines that run keep those they were started with."
      actions={add}
    >
      {!mayChange && <p className="text-sm text-muted">{WHY_NOT}</p>}
      <Answer of={keys}>
        {({ sshKeys }) => (
          <Table
            label="SSH keys"
            columns={columnsFor(mayChange, setDeleting)}
            rows={sshKeys}
            rowKey={(key) => key.id}
            empty={
              <Empty title="There is no SSH key yet" action={add}>
                A machine is rented with at least one, or nobody could log into it.
              </Empty>
            }
          />
        )}
      </Answer>
      {isAdding && <AddDialog onClose={() => setAdding(false)} />}
      {deleting !== undefined && <DeleteDialog sshKey={deleting} onClose={() => setDeleting(undefined)} />}
    </Page>
  )
}

function columnsFor(mayChange: boolean, onDelete: (key: SshKey) => void): ReadonlyArray<Column<SshKey>> {
  return [
    { name: 'name', header: 'Name', cell: (key) => <span className="font-medium">{key.name}</span> },
    { name: 'type', header: 'Type', wideOnly: true, cell: (key) => key.publicKey.split(' ')[0] },
    {
      name: 'fingerprint',
      header: 'Fingerprint',
      cell: (key) => <span className="font-mono text-xs break-all">{key.fingerprint}</span>,
    },
    {
      name: 'added',
      header: 'Added',
      wideOnly: true,
      cell: (key) => (
        <span className="whitespace-nowrap" title={localTime(key.createdAt)}>
          {localDate(key.createdAt)}
        </span>
      ),
    },
    {
      name: 'actions',
      header: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (key) => (
        <Button
          disabledReason={mayChange ? undefined : WHY_NOT}
          onClick={() => onDelete(key)}
          aria-label={`Delete ${key.name}`}
        >
          Delete
        </Button>
      ),
    },
  ]
}

function AddDialog({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('')
  const [publicKey, setPublicKey] = useState('')
  const [wasTried, setTried] = useState(false)
  const add = useAction('addSshKey', ['listSshKeys'])
  const keyFault = sshKeyFault(publicKey)
  const nameFault = name.trim() === '' ? 'Give it a name, so that you know it again.' : undefined
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    setTried(true)
    if (keyFault !== undefined || nameFault !== undefined) return
    add.mutate(
      { body: { name: name.trim(), publicKey: publicKey.trim() } },
      {
        onSuccess: (added) => {
          toast(`${added.name} is added`)
          onClose()
        },
      },
    )
  }
  const paste = (text: string): void => {
    setPublicKey(text)
    // What most people would call it stands at the end of the key; what was typed stays.
    if (name === sshKeyComment(publicKey)) setName(sshKeyComment(text))
  }
  const left = errorBesideFields(add.error, ['name', 'publicKey'])
  return (
    <Dialog title="Add an SSH key" onClose={onClose} wide>
      <form onSubmit={submit} noValidate className="flex flex-col gap-4">
        <TextArea
          label="Public key"
          rows={4}
          spellCheck={false}
          placeholder="ssh-ed25519 AAAA… you@laptop"
          hint="The one line of a file that ends in .pub. This prints it on Linux and macOS:"
          value={publicKey}
          error={(wasTried ? keyFault : undefined) ?? fieldError(add.error, 'publicKey')}
          onChange={(event) => paste(event.target.value)}
        />
        <CodeBlock label="Command" code="cat ~/.ssh/id_ed25519.pub" />
        <TextField
          label="Name"
          maxLength={255}
          value={name}
          error={(wasTried ? nameFault : undefined) ?? fieldError(add.error, 'name')}
          onChange={(event) => setName(event.target.value)}
        />
        {left !== null && <ErrorNotice error={left} />}
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton busy={add.isPending}>Add</SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

function DeleteDialog({ sshKey, onClose }: { sshKey: SshKey; onClose: () => void }) {
  const remove = useAction('deleteSshKey', ['listSshKeys'])
  const confirm = (): void =>
    remove.mutate(
      { params: { id: sshKey.id } },
      {
        onSuccess: () => {
          toast(`${sshKey.name} is deleted`)
          onClose()
        },
      },
    )
  return (
    <ConfirmDialog
      title={`Delete ${sshKey.name}?`}
      action="Delete"
      busy={remove.isPending}
      error={remove.error}
      onConfirm={confirm}
      onClose={onClose}
    >
      New machines will not let it in. Machines that run keep it: whoever holds the private key can still log into them.
    </ConfirmDialog>
  )
}
