/** Secrets and registry logins that orders refer to. Their values are write-only. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { actionColumn, agoColumn, dateColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Button } from '../../ui/button.tsx'
import { Section } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { TextField } from '../../ui/field.tsx'
import { Page } from '../../ui/page.tsx'

type Secret = Reply<'listSecrets'>['secrets'][number]
type RegistryLogin = Reply<'listRegistryCredentials'>['registryCredentials'][number]

const WHY_NOT = 'Your key is read-only. Changing secrets requires the scope compute:write.'

export function SecretsPage() {
  const disabledReason = useMay('compute:write') ? undefined : WHY_NOT
  // The second table waits for the first, so that nothing moves when its rows arrive.
  const { isPending } = useCall('listSecrets')
  return (
    <Page intro="Orders refer to secrets as {{ secrets.NAME }}. Values are encrypted and shown to nobody; only the machine gets them.">
      {disabledReason !== undefined && <p className="text-sm text-muted">{disabledReason}</p>}
      <Secrets disabledReason={disabledReason} />
      {!isPending && <RegistryLogins disabledReason={disabledReason} />}
    </Page>
  )
}

function Secrets({ disabledReason }: { disabledReason: string | undefined }) {
  const dialog = useDialog()
  const add = (
    <Button
      look="primary"
      disabledReason={disabledReason}
      onClick={() => dialog.open((close) => <SetDialog onClose={close} />)}
    >
      Add secret
    </Button>
  )
  const replace = (one: Secret): void => dialog.open((close) => <SetDialog name={one.name} onClose={close} />)
  const remove = (one: Secret): void =>
    dialog.open((close) => (
      <ConfirmCall
        title={`Delete ${one.name}?`}
        action="Delete"
        operation="deleteSecret"
        input={{ params: { name: one.name } }}
        refreshes={['listSecrets']}
        done={`Deleted ${one.name}`}
        onClose={close}
      >
        Orders that refer to it will be rejected.
      </ConfirmCall>
    ))
  const inUse = ({ rentals }: Secret): string | undefined =>
    rentals.length === 0 ? undefined : `Used by rental ${rentals.join(', ')}`
  return (
    <Section title="Secrets" actions={add}>
      <ListTable
        label="Secrets"
        call="listSecrets"
        rows={({ secrets }) => secrets}
        rowKey="name"
        columns={[
          ...secretColumns,
          actionColumn('Replace', ({ name }) => name, replace, { disabledReason: () => disabledReason }),
          actionColumn('Delete', ({ name }) => name, remove, {
            disabledReason: (one) => disabledReason ?? inUse(one),
          }),
        ]}
        empty={
          <Empty title="No secrets yet" action={add}>
            Keep tokens and passwords here instead of in environment variables.
          </Empty>
        }
      />
      {dialog.shown}
    </Section>
  )
}

const secretColumns: Columns<Secret> = [
  textColumn('Name', 'name', { className: 'font-mono' }),
  textColumn('Used by', ({ rentals }) => (rentals.length === 0 ? '—' : rentals.map((id) => `#${id}`).join(', '))),
  agoColumn('Changed', 'updatedAt'),
]

/** Asks for a name if `name` is missing. */
function SetDialog({ name, onClose }: { name?: string; onClose: () => void }) {
  const [typed, setTyped] = useState('')
  return (
    <FieldDialog
      title={name === undefined ? 'Add secret' : `Replace ${name}`}
      action={name === undefined ? 'Add' : 'Replace'}
      operation="setSecret"
      refreshes={['listSecrets']}
      input={{ params: { name: name ?? typed.trim() } }}
      fields={[
        ['value', { as: 'block', hint: name && 'Machines keep the value that they were created with.', read: String }],
      ]}
      disabledReason={name === undefined && typed.trim() === '' ? 'Enter a name first' : undefined}
      done={(secret) => `Saved ${secret.name}`}
      onClose={onClose}
    >
      {name === undefined && (
        <TextField
          label="Name"
          placeholder="HF_TOKEN"
          spellCheck={false}
          hint="Letters, digits, underscores and hyphens, starting with a letter or underscore"
          value={typed}
          onChange={(event) => setTyped(event.target.value)}
        />
      )}
    </FieldDialog>
  )
}

function RegistryLogins({ disabledReason }: { disabledReason: string | undefined }) {
  const dialog = useDialog()
  const add = (
    <Button disabledReason={disabledReason} onClick={() => dialog.open((close) => <RegistryDialog onClose={close} />)}>
      Add registry login
    </Button>
  )
  const remove = (one: RegistryLogin): void =>
    dialog.open((close) => (
      <ConfirmCall
        title={`Delete ${one.name}?`}
        action="Delete"
        operation="deleteRegistryCredential"
        input={{ params: { id: one.id } }}
        refreshes={['listRegistryCredentials']}
        done={`Deleted ${one.name}`}
        onClose={close}
      >
        Orders can no longer pull private images with it.
      </ConfirmCall>
    ))
  return (
    <Section title="Registry logins" actions={add}>
      <ListTable
        label="Registry logins"
        call="listRegistryCredentials"
        rows={({ registryCredentials }) => registryCredentials}
        rowKey="id"
        columns={[
          ...loginColumns,
          actionColumn('Delete', ({ name }) => name, remove, { disabledReason: () => disabledReason }),
        ]}
        empty={<Empty title="No registry logins">Add one to rent containers with private images.</Empty>}
      />
      {dialog.shown}
    </Section>
  )
}

const loginColumns: Columns<RegistryLogin> = [
  textColumn('Name', 'name', { className: 'font-medium' }),
  textColumn('Registry', 'server'),
  textColumn('User', 'username'),
  dateColumn('Added', 'createdAt', { wideOnly: true }),
]

function RegistryDialog({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      title="Add registry login"
      action="Add"
      operation="addRegistryCredential"
      refreshes={['listRegistryCredentials']}
      fields={['name', 'server', 'username', ['password', { as: 'password', read: String }]]}
      done={(login) => `Added ${login.name}`}
      onClose={onClose}
    />
  )
}
