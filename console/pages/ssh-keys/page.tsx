/** SSH keys that new machines accept. */
import type { Reply } from '../../../src/client/client.ts'
import { useMay } from '../../api/me.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { actionColumn, dateColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Button } from '../../ui/button.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { GenerateDialog } from './generate-dialog.tsx'
import { sshKeyComment, sshKeyFault } from './text.ts'

type SshKey = Reply<'listSshKeys'>['sshKeys'][number]

const WHY_NOT = 'Your key is read-only. Changing SSH keys requires the scope compute:write or keys.'

export function SshKeysPage() {
  const mayRent = useMay('compute:write')
  const mayManage = useMay('keys')
  const disabledReason = mayRent || mayManage ? undefined : WHY_NOT
  const dialog = useDialog()
  const add = (
    <Button
      look="primary"
      disabledReason={disabledReason}
      onClick={() => dialog.open((close) => <AddDialog onClose={close} />)}
    >
      Add key
    </Button>
  )
  const generate = (
    <Button disabledReason={disabledReason} onClick={() => dialog.open((close) => <GenerateDialog onClose={close} />)}>
      Generate key
    </Button>
  )
  const remove = (key: SshKey): void => dialog.open((close) => <DeleteDialog sshKey={key} onClose={close} />)
  return (
    <Page
      intro="New machines accept these keys. Running machines keep the keys they started with."
      actions={
        <>
          {generate}
          {add}
        </>
      }
    >
      {disabledReason !== undefined && <p className="text-sm text-muted">{disabledReason}</p>}
      <ListTable
        label="SSH keys"
        call="listSshKeys"
        rows={({ sshKeys }) => sshKeys}
        rowKey="id"
        columns={[
          ...columns,
          actionColumn('Delete', ({ name }) => name, remove, { disabledReason: () => disabledReason }),
        ]}
        empty={
          <Empty title="No SSH keys yet" action={add}>
            Add one before you rent a machine, so that you can log in.
          </Empty>
        }
      />
      {dialog.shown}
    </Page>
  )
}

const columns: Columns<SshKey> = [
  textColumn('Name', 'name', { className: 'font-medium' }),
  textColumn('Type', ({ publicKey }) => publicKey.split(' ')[0], { wideOnly: true }),
  textColumn('Fingerprint', 'fingerprint', { className: 'font-mono text-xs break-all' }),
  dateColumn('Added', 'createdAt', { wideOnly: true }),
]

const command = { show: <CodeBlock label="Command" code="cat ~/.ssh/id_ed25519.pub" /> }

function AddDialog({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      title="Add SSH key"
      wide
      action="Add key"
      operation="addSshKey"
      refreshes={['listSshKeys']}
      fields={({ name, publicKey }) => [
        [
          'publicKey',
          {
            as: 'block',
            placeholder: 'ssh-ed25519 AAAA… you@laptop',
            hint: 'The content of your .pub file. On Linux and macOS, print it with:',
            // Suggests the key's comment as its name; a typed name stays.
            also: (text) => (name === sshKeyComment(publicKey) ? { name: sshKeyComment(text) } : {}),
          },
        ],
        command,
        'name',
      ]}
      check={({ publicKey }) => ({ publicKey: sshKeyFault(publicKey) })}
      done={({ name }) => `Added ${name}`}
      onClose={onClose}
    />
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
