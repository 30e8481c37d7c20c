/** Providers at which people sign in: added, tested, changed and disabled. */
import { getRouteApi } from '@tanstack/react-router'
import type { Reply } from '../../../src/client/client.ts'
import { CallButton, ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { actionsColumn, agoColumn, badgeColumn, numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { ProviderOutcome } from '../../shell/provider-outcome.tsx'
import { Button } from '../../ui/button.tsx'
import { useDialog, type OpenDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { providerFields } from './fields.tsx'
import { ProviderTest } from './test.tsx'

type Provider = Reply<'listSsoProviders'>['providers'][number]

const route = getRouteApi('/shell/operator/sso')

export function SsoPage() {
  const { tested, error, provider } = route.useSearch()
  const dialog = useDialog()
  const actions = (row: Provider) => <Actions provider={row} dialog={dialog} />
  const add = (
    <Button
      look="primary"
      onClick={() => dialog.open((close) => <AddDialog onClose={close} onAdded={openTest(dialog)} />)}
    >
      Add provider
    </Button>
  )
  return (
    <Page
      intro="Providers at which people sign in: your company's, Google, Entra, Keycloak or GitHub. Codes by email, passkeys and API keys work beside them."
      actions={add}
    >
      <ProviderOutcome
        error={error}
        provider={provider}
        success={tested === undefined ? undefined : `The sign-in at ${tested} works.`}
      />
      <ListTable
        label="Providers"
        call="listSsoProviders"
        rows={({ providers }) => providers}
        rowKey="id"
        columns={[...columns, actionsColumn(actions)]}
        empty={
          <Empty title="No providers" action={add}>
            Register this server at your provider as an OpenID Connect application, then add it here.
          </Empty>
        }
      />
      {dialog.shown}
    </Page>
  )
}

const columns: Columns<Provider> = [
  textColumn('Provider', ({ name, id, issuer }) => (
    <span className="block min-w-44 leading-tight">
      <span className="font-medium">{name}</span> <span className="font-mono text-xs text-muted">{id}</span>
      <span className="block text-muted break-all">{issuer}</span>
    </span>
  )),
  badgeColumn('Status', stateOf),
  textColumn('For', ({ accountId, requiredDomain }) => accountId ?? requiredDomain ?? 'Everybody', { wideOnly: true }),
  numberColumn('People', 'people', { wideOnly: true }),
  agoColumn('Last success', 'succeededAt', { never: 'Never', wideOnly: true }),
]

function stateOf({ disabledAt, isDown, lastError, succeededAt }: Provider) {
  if (disabledAt !== null) return { label: 'Disabled' } as const
  if (isDown) return { label: 'Not reachable', tone: 'bad', hint: lastError ?? undefined } as const
  if (succeededAt === null) return { label: 'Not tested', tone: 'warn' } as const
  return { label: 'Active', tone: 'good' } as const
}

function openTest(dialog: OpenDialog): (id: string) => void {
  return (id) => dialog.open((close) => <ProviderTest id={id} onClose={close} />)
}

function Actions({ provider, dialog }: { provider: Provider; dialog: OpenDialog }) {
  const { id, name, disabledAt } = provider
  return (
    <>
      <Button aria-label={`Test ${name}`} onClick={() => openTest(dialog)(id)}>
        Test
      </Button>
      <Button
        aria-label={`Change ${name}`}
        onClick={() => dialog.open((close) => <ChangeDialog provider={provider} onClose={close} />)}
      >
        Change
      </Button>
      <CallButton
        operation="changeSsoProvider"
        input={{ params: { id }, body: { disabled: disabledAt === null } }}
        refreshes={['listSsoProviders']}
        done={disabledAt === null ? `Disabled ${name}` : `Enabled ${name}`}
        aria-label={`${disabledAt === null ? 'Disable' : 'Enable'} ${name}`}
      >
        {disabledAt === null ? 'Disable' : 'Enable'}
      </CallButton>
      <Button
        look="quiet"
        aria-label={`Remove ${name}`}
        onClick={() => dialog.open((close) => <RemoveDialog provider={provider} onClose={close} />)}
      >
        Remove
      </Button>
    </>
  )
}

function AddDialog({ onClose, onAdded }: { onClose: () => void; onAdded: (id: string) => void }) {
  return (
    <FieldDialog
      operation="addSsoProvider"
      refreshes={['listSsoProviders']}
      title="Add provider"
      action="Add provider"
      wide
      fields={({ kind }) => [['id', { label: 'ID' }], ...providerFields(kind), 'domains']}
      done={({ name }) => `Added ${name}`}
      onDone={({ id }) => onAdded(id)}
      onClose={onClose}
    />
  )
}

function ChangeDialog({ provider, onClose }: { provider: Provider; onClose: () => void }) {
  const { id, name } = provider
  return (
    <FieldDialog
      operation="changeSsoProvider"
      input={{ params: { id } }}
      refreshes={['listSsoProviders']}
      title={`Change ${name}`}
      action="Save"
      wide
      before={provider}
      fields={[
        'name',
        'issuer',
        'clientId',
        ['clientSecret', { label: 'Client secret', as: 'password', hint: 'Leave empty to keep the stored one.' }],
        'requiredDomain',
        'domains',
      ]}
      done={`Changed ${name}`}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        Another issuer or client needs a new test. Another issuer also ends the connections of people.
      </p>
    </FieldDialog>
  )
}

function RemoveDialog({ provider: { id, name, people }, onClose }: { provider: Provider; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Remove ${name}?`}
      action="Remove"
      operation="removeSsoProvider"
      input={{ params: { id } }}
      refreshes={['listSsoProviders']}
      done={`Removed ${name}`}
      word={id}
      onClose={onClose}
    >
      <p>
        {people === 1 ? '1 person signs' : `${people} people sign`} in with it. Their connections and the sessions that
        began there end. Accounts that required it do not require it any more.
      </p>
    </ConfirmCall>
  )
}
