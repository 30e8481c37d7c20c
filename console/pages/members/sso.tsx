/** The provider of the account, and whether members must sign in at one. */
import type { Reply } from '../../../src/client/client.ts'
import { localTime } from '../../../src/view/time.ts'
import { useAction, useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Card, Facts } from '../../ui/card.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { Dialog, DialogButtons, useDialog } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { SelectField } from '../../ui/field.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'
import { providerFields } from '../sso/fields.tsx'
import { TestResults } from '../sso/test.tsx'

type Sso = Reply<'getAccountSso'>

export function AccountSso({ disabledReason }: { disabledReason: string | undefined }) {
  const sso = useCall('getAccountSso')
  return (
    <Card title="Single sign-on">
      <Answer of={sso} skeleton={<Skeleton rows={2} />}>
        {(data) => <OfAccount sso={data} disabledReason={disabledReason} />}
      </Answer>
    </Card>
  )
}

function OfAccount({ sso, disabledReason }: { sso: Sso; disabledReason: string | undefined }) {
  const { provider } = sso
  const dialog = useDialog()
  return (
    <div className="flex flex-col gap-4">
      <Required sso={sso} disabledReason={disabledReason} />
      {provider === null ? (
        <p className="text-sm text-muted">
          This account has no provider of its own. With one, members sign in as they do everywhere in your organization.
        </p>
      ) : (
        <>
          <Facts
            facts={[
              ['Provider', provider.name],
              ['Issuer', provider.issuer],
              ['Last success', provider.succeededAt === null ? 'Never' : localTime(provider.succeededAt)],
              ['Last error', provider.lastError],
            ]}
          />
          {provider.callbackUrl !== null && <CopyLine label="Redirect URI" text={provider.callbackUrl} />}
        </>
      )}
      <div className="flex flex-wrap gap-2">
        <Button
          disabledReason={disabledReason}
          onClick={() => dialog.open((close) => <SetDialog provider={provider} onClose={close} />)}
        >
          {provider === null ? 'Set up a provider' : 'Change provider'}
        </Button>
        {provider !== null && (
          <>
            <Button
              disabledReason={disabledReason}
              onClick={() => dialog.open((close) => <TestDialog onClose={close} />)}
            >
              Test
            </Button>
            <Button
              disabledReason={disabledReason}
              onClick={() => dialog.open((close) => <RemoveDialog name={provider.name} onClose={close} />)}
            >
              Remove provider
            </Button>
          </>
        )}
      </div>
      {dialog.shown}
    </div>
  )
}

const ANY = ''

function Required({
  sso: { choices, requiredProviderId },
  disabledReason,
}: {
  sso: Sso
  disabledReason: string | undefined
}) {
  const change = useAction('requireAccountSso', ['getAccountSso', 'getPerson'])
  const choose = (id: string): void =>
    change.mutate(
      { body: { providerId: id === ANY ? null : id } },
      { onSuccess: () => toast(id === ANY ? 'Members sign in in any way' : 'Members must sign in at this provider') },
    )
  return (
    <>
      <SelectField
        label="Members must sign in at"
        className="sm:max-w-sm"
        hint="An owner must have signed in through it once. API keys keep working."
        disabled={disabledReason !== undefined || change.isPending}
        title={disabledReason}
        choices={[
          { value: ANY, label: 'Any way' },
          ...choices.map(({ id, name, canRequire }) => ({
            value: id,
            label: canRequire ? name : `${name} (no owner has used it yet)`,
            disabled: !canRequire,
          })),
        ]}
        value={requiredProviderId ?? ANY}
        onChange={(event) => choose(event.target.value)}
      />
      {change.error !== null && <ErrorNotice error={change.error} />}
    </>
  )
}

function SetDialog({ provider, onClose }: { provider: Sso['provider']; onClose: () => void }) {
  return (
    <FieldDialog
      operation="setAccountSso"
      refreshes={['getAccountSso']}
      title={provider === null ? 'Set up a provider' : 'Change provider'}
      action="Save"
      wide
      initial={
        provider === null
          ? {}
          : {
              kind: provider.kind,
              name: provider.name,
              issuer: provider.issuer,
              clientId: provider.clientId,
              requiredDomain: provider.requiredDomain ?? '',
            }
      }
      fields={({ kind }) => providerFields(kind)}
      done="Saved. Test it next"
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        People who sign in through it get a code by email first, and act in this account only.
      </p>
    </FieldDialog>
  )
}

function TestDialog({ onClose }: { onClose: () => void }) {
  const test = useAction('testAccountSso', ['getAccountSso'])
  return (
    <Dialog title="Test the provider" onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        <p className="text-sm text-muted">Checks what can be checked without a browser.</p>
        {test.error !== null && <ErrorNotice error={test.error} />}
        {test.data !== undefined && <TestResults result={test.data} page="/members" />}
        <DialogButtons>
          <Button look="primary" busy={test.isPending} onClick={() => test.mutate({})}>
            {test.data === undefined ? 'Test' : 'Test again'}
          </Button>
          <Button onClick={onClose}>Close</Button>
        </DialogButtons>
      </div>
    </Dialog>
  )
}

function RemoveDialog({ name, onClose }: { name: string; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Remove ${name}?`}
      action="Remove"
      operation="removeAccountSso"
      input={{}}
      refreshes={['getAccountSso']}
      done={`Removed ${name}`}
      onClose={onClose}
    >
      <p>Members sign in in any other way then. Nobody is removed from the account.</p>
    </ConfirmCall>
  )
}
