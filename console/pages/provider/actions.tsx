/** Checks, suspends and resumes an account, and shows the command that replaces its credentials. */
import type { Reply } from '../../../src/client/client.ts'
import { checkLabels, type Provider } from '../../../src/view/provider.ts'
import { useAction, useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Button } from '../../ui/button.tsx'
import { Code } from '../../ui/card.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Dialog, useDialog } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Table } from '../../ui/table.tsx'
import { credentialsFile } from './parts.tsx'

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
              <Table label="Checks" columns={checkColumns} rows={check.data.checks} rowKey="check" empty={null} />
            </div>
          )}
        </Dialog>
      )}
      {dialog.shown}
    </>
  )
}

type Check = Reply<'checkProvider'>['checks'][number]

const checkNames = {
  reachable: 'Reachable',
  rights: 'Rights',
  limits: 'Limits',
  prices: 'Prices',
} as const satisfies Record<Check['check'], string>

const checkColumns: Columns<Check> = [
  textColumn('Check', ({ check }) => checkNames[check]),
  badgeColumn('Result', ({ result }) => checkLabels[result]),
  textColumn('Detail', 'detail'),
]

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

/** Shows a command, because credentials never pass through a browser. */
function RotateDialog({ account: { name, provider }, onClose }: QuestionProps) {
  const kinds = useCall('listProviders').data?.kinds
  const file = credentialsFile(kinds?.find((kind) => kind.provider === provider)?.credentials ?? [])
  return (
    <Dialog title={`Replace the credentials of ${name}`} onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        <p className="text-sm">
          Put the new credentials into <Code text={file.name} />, readable only by you, and run:
        </p>
        <CodeBlock label={`Contents of ${file.name}`} code={file.text} />
        <CodeBlock
          label="Command to replace the credentials"
          code={`berth operator providers rotate ${name} --credentials ${file.name}\nberth operator providers check ${name}`}
        />
        <p className="text-sm text-muted">Running rentals are not affected, and no restart is needed.</p>
      </div>
    </Dialog>
  )
}
