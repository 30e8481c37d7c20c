/** Three steps through the whole, each ticked off by what the account has really done, and the same by hand. */
import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { parseUsd } from '../../../src/base/money.ts'
import { WELCOME_PATH, type ConsoleWelcome } from '../../../src/contract/session.ts'
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
    <Page intro="Three steps through the whole. Each is ticked off when you have done it.">
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
          A virtual machine, bare metal, or a container on somebody’s machine. It runs in seconds; its page has the SSH
          command, a terminal and the logs. You pay by the millisecond, and nothing after you terminate it.
        </Step>
        <Step
          number={2}
          title="Talk to a model"
          isDone={(requests.data?.requests.length ?? 0) > 0}
          actions={<ButtonLink to="/chat">Chat</ButtonLink>}
        >
          The models of this server answer in the browser and by an API that OpenAI’s clients speak. Each answer shows
          its tokens and its cost.
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
          The statement has every charge to the nano-dollar; usage has them by day, model and key.
        </Step>
      </ol>
      <ByHand />
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

function ByHand() {
  const url = location.origin
  return (
    <Card title="The same by hand">
      <div className="flex flex-col gap-4 text-sm">
        <p className="max-w-prose text-muted">
          Everything here is an API. Set the address and your key once; the command line and curl take them from there.
        </p>
        <CodeBlock label="Address and key" code={`export BERTH_URL=${url}\nexport BERTH_KEY=bk_…`} />
        <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
          <div className="flex min-w-0 flex-col gap-2">
            <h3 className="font-semibold">Command line</h3>
            <CodeBlock label="Command line" code={'berth gpus\nberth rent\nberth chat\nberth balance'} />
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
            Reference of the API
          </a>
          <ButtonLink to="/keys">API keys</ButtonLink>
          <ButtonLink to="/ssh-keys">SSH keys</ButtonLink>
        </div>
      </div>
    </Card>
  )
}

/** Only on the server's own machine its files can be named. */
function OperatorNote() {
  const welcome = useQuery({ queryKey: ['welcome'], queryFn: readWelcome, retry: false })
  const file = welcome.data?.operatorKeyFile
  return (
    <Card title="You are an operator" actions={<ButtonLink to="/operator">Traffic</ButtonLink>}>
      <p className="max-w-prose text-sm text-muted">
        Accounts, prices, models and machines are in the navigation under Operator. The operator’s key{' '}
        {file === undefined ? 'is in the file operator.key of the server’s data folder' : `is in the file ${file}`}; a
        lost one is replaced with <code className="font-mono">berth serve --new-operator-key</code>.
      </p>
    </Card>
  )
}

async function readWelcome(): Promise<ConsoleWelcome> {
  const response = await consoleFetch(WELCOME_PATH)
  return response.ok ? ((await response.json()) as ConsoleWelcome) : {}
}
