/** Getting started: three steps, each checked off by the account's own activity, with the same steps for the API. */
import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { parseUsd } from '../../../src/base/money.ts'
import { WELCOME_PATH } from '../../../src/contract/session.ts'
import type { ConsoleWelcome } from '../../../src/contract/session-body.ts'
import { consoleFetch } from '../../api/client.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ButtonLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { cx } from '../../ui/class.ts'
import { CodeBlock } from '../../ui/copy.tsx'
import { Page } from '../../ui/page.tsx'

export function TourPage() {
  const mayCompute = useMay('compute:read')
  const mayInfer = useMay('inference')
  const seesMoney = useMay('billing:read')
  const isOperator = useMay('operator')
  const ordered = useCall('listEvents', { query: { type: 'rental.created', limit: 1 } }, { enabled: mayCompute })
  const requests = useCall('listInferenceRequests', { query: { limit: 1 } }, { enabled: mayInfer })
  const usage = useCall('getUsageSummary', {}, { enabled: seesMoney })
  const spent = usage.data === undefined ? 0n : (parseUsd(usage.data.totalUsd) ?? 0n)
  return (
    <Page intro="Get started in three steps. Each is checked off when you have done it.">
      <ol className="flex flex-col gap-3">
        <Step
          number={1}
          title="Rent a machine"
          isDone={(ordered.data?.events.length ?? 0) > 0}
          actions={
            <>
              <ButtonLink to="/rent" look="primary">
                Rent a machine
              </ButtonLink>
              <ButtonLink to="/marketplace">Marketplace</ButtonLink>
            </>
          }
        >
          Choose a virtual machine, bare metal, or a container on the marketplace. It starts in seconds; its page has
          the SSH command, a terminal and logs. You pay by the millisecond until you terminate it.
        </Step>
        <Step
          number={2}
          title="Chat with a model"
          isDone={(requests.data?.requests.length ?? 0) > 0}
          actions={<ButtonLink to="/chat">Chat</ButtonLink>}
        >
          Use the models of this server in the browser or through an OpenAI-compatible API. Each answer shows its tokens
          and cost.
        </Step>
        <Step
          number={3}
          title="See what it cost"
          isDone={spent > 0n}
          actions={
            <>
              <ButtonLink to="/billing">Billing</ButtonLink>
              <ButtonLink to="/usage">Usage</ButtonLink>
            </>
          }
        >
          The statement lists every charge; usage shows spend by day, model, key and rental.
        </Step>
      </ol>
      <CommandLine />
      {isOperator && <OperatorNote />}
    </Page>
  )
}

interface StepProps {
  readonly number: number
  readonly title: string
  readonly isDone: boolean
  readonly actions: ReactNode
  readonly children: ReactNode
}

function Step({ number, title, isDone, actions, children }: StepProps) {
  return (
    <li className="flex gap-4 rounded-lg border border-line bg-surface p-4">
      <span
        aria-hidden="true"
        className={cx(
          'flex size-8 shrink-0 items-center justify-center rounded-full text-sm font-semibold',
          isDone ? 'bg-good-soft text-good' : 'bg-sunken text-muted',
        )}
      >
        {isDone ? '✓' : number}
      </span>
      <div className="flex min-w-0 flex-col gap-2">
        <h2 className="font-semibold">
          {title}
          <span className={isDone ? 'ml-2 text-sm font-medium text-good' : 'sr-only'}>
            {isDone ? 'Done' : '(not done yet)'}
          </span>
        </h2>
        <p className="max-w-prose text-sm text-muted">{children}</p>
        <div className="flex flex-wrap gap-2">{actions}</div>
      </div>
    </li>
  )
}

function CommandLine() {
  const url = location.origin
  return (
    <Card title="Command line and API">
      <div className="flex flex-col gap-4 text-sm">
        <p className="max-w-prose text-muted">
          Everything in this console is available through the API. Set the URL and your key once.
        </p>
        <CodeBlock label="URL and key" code={`export BERTH_URL=${url}\nexport BERTH_KEY=bk_…`} />
        <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
          <div className="flex min-w-0 flex-col gap-2">
            <h3 className="font-semibold">Command line</h3>
            <CodeBlock label="Command line" code={'berth gpus ls\nberth rent\nberth chat\nberth balance'} />
          </div>
          <div className="flex min-w-0 flex-col gap-2">
            <h3 className="font-semibold">curl</h3>
            <CodeBlock
              label="curl"
              code={[
                'curl $BERTH_URL/v2/alpha/on-demand/rental-options',
                'curl $BERTH_URL/v2/customer/balance \\',
                '  -H "Authorization: Bearer $BERTH_KEY"',
              ].join('\n')}
            />
          </div>
        </div>
        <div className="flex flex-wrap gap-2">
          <a
            href="/docs"
            className="inline-flex min-h-9 items-center rounded-md border border-line-strong bg-surface px-3 py-1.5 text-sm font-medium hover:bg-sunken"
          >
            API reference
          </a>
          <ButtonLink to="/keys">API keys</ButtonLink>
          <ButtonLink to="/ssh-keys">SSH keys</ButtonLink>
        </div>
      </div>
    </Card>
  )
}

/** File paths are only known on the server's own machine. */
function OperatorNote() {
  const welcome = useQuery({ queryKey: ['welcome'], queryFn: readWelcome, retry: false })
  const file = welcome.data?.operatorKeyFile
  return (
    <Card title="Operator access" actions={<ButtonLink to="/operator">Traffic</ButtonLink>}>
      <p className="max-w-prose text-sm text-muted">
        Manage accounts, prices, models and machines under Operator in the navigation. The operator key is in{' '}
        {file === undefined ? 'the file operator.key in the server’s data folder' : `the file ${file}`}. Replace a lost
        key with <code className="font-mono">berth serve --new-operator-key</code>.
      </p>
    </Card>
  )
}

async function readWelcome(): Promise<ConsoleWelcome> {
  const response = await consoleFetch(WELCOME_PATH)
  return response.ok ? ((await response.json()) as ConsoleWelcome) : {}
}
