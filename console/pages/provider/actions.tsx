/** Checks, suspends and resumes an account, and replaces its credentials. */
import { useState, type FormEvent } from 'react'
import type { Provider } from '../../../src/view/provider.ts'
import { useAction, useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Button } from '../../ui/button.tsx'
import { CancelButton, Dialog, DialogButtons, SubmitButton, useDialog } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'
import { Checks } from './checks.tsx'
import {
  CredentialFields,
  isElsewhere,
  missingCredential,
  typedCredentials,
  type ProviderKind,
} from './credentials.tsx'

/** A cloud may ask for pauses between requests. */
const CHECK_MS = 70_000

export function ProviderActions({ account }: { account: Provider }) {
  const dialog = useDialog()
  const check = useAction('checkProvider', ['listProviders'])
  const { name, state } = account
  const ask = (Question: typeof SuspendDialog) => () =>
    dialog.open((close) => <Question account={account} onClose={close} />)
  return (
    <>
      <Button
        look="primary"
        busy={check.isPending}
        onClick={() => check.mutate({ params: { name }, timeoutMs: CHECK_MS })}
      >
        Check
      </Button>
      {state === 'suspended' ? (
        <Button onClick={ask(ResumeDialog)}>Resume</Button>
      ) : (
        <Button onClick={ask(SuspendDialog)}>Suspend</Button>
      )}
      <Button onClick={ask(RotateDialog)}>Replace credentials</Button>
      {(check.data !== undefined || check.error !== null) && (
        <Dialog title={`Check of ${name}`} onClose={() => check.reset()} wide>
          {check.error !== null && <ErrorNotice error={check.error} />}
          {check.data !== undefined && (
            <div className="flex flex-col gap-3">
              <p className="text-sm">
                {check.data.ok ? 'The account can be used.' : 'The account cannot be used.'} Nothing was changed there.
              </p>
              <Checks checks={check.data.checks} />
            </div>
          )}
        </Dialog>
      )}
      {dialog.shown}
    </>
  )
}

interface QuestionProps {
  readonly account: Provider
  readonly onClose: () => void
}

function SuspendDialog({ account: { name }, onClose }: QuestionProps) {
  return (
    <ConfirmCall
      title={`Suspend ${name}?`}
      action="Suspend"
      operation="changeProvider"
      input={{ params: { name }, body: { suspended: true } }}
      refreshes={['listProviders']}
      done={`Suspended ${name}.`}
      onClose={onClose}
    >
      No new orders are placed there, and its offers go off sale. Its rentals go on and are still charged.
    </ConfirmCall>
  )
}

function ResumeDialog({ account: { name }, onClose }: QuestionProps) {
  return (
    <ConfirmCall
      title={`Resume ${name}?`}
      action="Resume"
      operation="changeProvider"
      input={{ params: { name }, body: { suspended: false } }}
      refreshes={['listProviders']}
      done={`Resumed ${name}.`}
      onClose={onClose}
    >
      Its offers go on sale again with the next report, and new orders can be placed there.
    </ConfirmCall>
  )
}

function RotateDialog({ account, onClose }: QuestionProps) {
  const kind = useCall('listProviders').data?.kinds.find(({ provider }) => provider === account.provider)
  return (
    <Dialog title={`Replace the credentials of ${account.name}`} onClose={onClose} wide>
      {kind === undefined ? <Skeleton rows={3} /> : <RotateForm account={account} kind={kind} onClose={onClose} />}
    </Dialog>
  )
}

function RotateForm({ account: { name }, kind, onClose }: QuestionProps & { readonly kind: ProviderKind }) {
  const [values, setValues] = useState<Record<string, string>>({})
  const rotate = useAction('rotateProvider', ['listProviders'])
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    const onSuccess = (): void => {
      toast(`Replaced the credentials of ${name}.`)
      onClose()
    }
    rotate.mutate({ params: { name }, body: { credentials: typedCredentials(values) } }, { onSuccess })
  }
  return (
    <form onSubmit={submit} noValidate autoComplete="off" className="flex flex-col gap-4">
      <p className="text-sm text-muted">
        Running rentals are not affected, and no restart is needed. Check the account afterwards.
      </p>
      <CredentialFields kind={kind} values={values} error={rotate.error} onChange={setValues} />
      {isElsewhere(kind, rotate.error) && rotate.error !== null && <ErrorNotice error={rotate.error} />}
      <DialogButtons>
        <CancelButton onClick={onClose} />
        <SubmitButton
          look="primary"
          busy={rotate.isPending}
          disabledReason={missingCredential(kind, values) === undefined ? undefined : 'Fill in the credentials first'}
        >
          Replace
        </SubmitButton>
      </DialogButtons>
    </form>
  )
}
