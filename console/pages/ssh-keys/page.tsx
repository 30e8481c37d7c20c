/** SSH keys that new machines accept. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { localDate, localTime } from '../../../src/view/time.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall, FormDialog } from '../../form/dialog.tsx'
import { useCallForm } from '../../form/use-form.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Empty } from '../../ui/empty.tsx'
import { TextArea, TextField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import { sshKeyComment, sshKeyFault } from './text.ts'

type SshKey = Reply<'listSshKeys'>['sshKeys'][number]

const WHY_NOT = 'Your key is read-only. Changing SSH keys requires the scope compute:write or keys.'

export function SshKeysPage() {
  const mayRent = useMay('compute:write')
  const mayManage = useMay('keys')
  const mayChange = mayRent || mayManage
  const keys = useCall('listSshKeys')
  const [isAdding, setAdding] = useState(false)
  const [deleting, setDeleting] = useState<SshKey>()
  const add = (
    <Button look="primary" disabledReason={mayChange ? undefined : WHY_NOT} onClick={() => setAdding(true)}>
      Add key
    </Button>
  )
  return (
    <Page intro="New machines accept these keys. Running machines keep the keys they started with." actions={add}>
      {!mayChange && <p className="text-sm text-muted">{WHY_NOT}</p>}
      <Answer of={keys}>
        {({ sshKeys }) => (
          <Table
            label="SSH keys"
            columns={columnsFor(mayChange, setDeleting)}
            rows={sshKeys}
            rowKey={(key) => key.id}
            empty={
              <Empty title="No SSH keys yet" action={add}>
                Add one before you rent a machine, so that you can log in.
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
  const form = useCallForm('addSshKey', {
    refreshes: ['listSshKeys'],
    initial: { name: '', publicKey: '' },
    body: ({ name, publicKey }) => ({ name: name.trim(), publicKey: publicKey.trim() }),
    check: ({ publicKey }) => ({ publicKey: sshKeyFault(publicKey) }),
    onDone: ({ name }) => {
      toast(`Added ${name}`)
      onClose()
    },
  })
  const { name, publicKey } = form.values
  const key = form.text('publicKey')
  const paste = (text: string): void => {
    // Suggests the key's comment as its name; a typed name stays.
    form.set({ publicKey: text, ...(name === sshKeyComment(publicKey) ? { name: sshKeyComment(text) } : {}) })
  }
  return (
    <FormDialog title="Add SSH key" wide form={form} action="Add key" onClose={onClose}>
      <TextArea
        label="Public key"
        rows={4}
        spellCheck={false}
        placeholder="ssh-ed25519 AAAA… you@laptop"
        hint="The content of your .pub file. On Linux and macOS, print it with:"
        {...key}
        onChange={(event) => paste(event.target.value)}
      />
      <CodeBlock label="Command" code="cat ~/.ssh/id_ed25519.pub" />
      <TextField label="Name" maxLength={255} {...form.text('name')} />
    </FormDialog>
  )
}

function DeleteDialog({ sshKey, onClose }: { sshKey: SshKey; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Delete ${sshKey.name}?`}
      action="Delete"
      operation="deleteSshKey"
      input={{ params: { id: sshKey.id } }}
      refreshes={['listSshKeys']}
      done={`Deleted ${sshKey.name}`}
      onClose={onClose}
    >
      New machines no longer accept this key. Running machines keep it, so its holder can still log in to them.
    </ConfirmCall>
  )
}
