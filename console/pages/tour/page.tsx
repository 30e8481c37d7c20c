/** Getting started: three steps, each checked off when it was really done, with the same steps for the API. */
import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { WELCOME_PATH } from '../../../src/contract/session.ts'
import type { ConsoleWelcome } from '../../../src/contract/session-body.ts'
import { consoleFetch } from '../../api/client.ts'
import { useMay, useMe } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { useSeenCost } from '../../api/seen-cost.ts'
import { ButtonLink, TextLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { cx } from '../../ui/class.ts'
import { CodeBlock } from '../../ui/copy.tsx'
import { Page } from '../../ui/page.tsx'

export function TourPage() {
  const mayCompute = useMay('compute:read')
  const mayInfer = useMay('inference')
  const seesMoney = useMay('billing:read')
  const { account } = useMe()
  const ordered = useCall('listEvents', { query: { type: 'rental.created', limit: 1 } }, { enabled: mayCompute })
  const requests = useCall('listInferenceRequests', { query: { limit: 1 } }, { enabled: mayInfer })
  const hasRented = (ordered.data?.events.length ?? 0) > 0
  const hasChatted = (requests.data?.requests.length ?? 0) > 0
  const hasLooked = useSeenCost(account.id)
  const next = [hasRented, hasChatted, hasLooked].indexOf(false) + 1
  const lookOf = (step: number) => (step === next ? 'primary' : 'secondary')
  return (
    <Page intro="Get started in three steps. Each is checked off when you have done it.">
      <div className="grid items-start gap-5 xl:grid-cols-[minmax(0,1fr)_minmax(0,1fr)]">
        <ol className="flex flex-col gap-3">
          <Step
            number={1}
            title="Rent a machine"
            isDone={hasRented}
            isNext={next === 1}
            actions={
              <ButtonLink to="/rent" look={lookOf(1)}>
                Rent a machine
              </ButtonLink>
            }
          >
            Choose GPUs for a container, a virtual machine or bare metal. It starts in seconds; its page has the SSH
            command, a terminal and logs. You pay by the millisecond until you terminate it.
          </Step>
          <Step
            number={2}
            title="Chat with a model"
            isDone={hasChatted}
            isNext={next === 2}
            actions={
              <ButtonLink to="/chat" look={lookOf(2)}>
                Chat
              </ButtonLink>
            }
          >
            Use the models of this server in the browser or through an OpenAI-compatible API. Each answer shows its
            tokens and cost.
          </Step>
          <Step
            number={3}
            title="See what it cost"
            isDone={hasLooked}
            isNext={next === 3}
            actions={
              seesMoney && (
                <>
                  <ButtonLink to="/costs" look={lookOf(3)}>
                    Costs
                  </ButtonLink>
                  <ButtonLink to="/billing">Billing</ButtonLink>
                </>
              )
            }
          >
            Costs shows the spend by day, model, key and rental; the statement in Billing lists every charge. This step
            is done when you have opened one of them after your first charge.
          </Step>
          {next === 0 && <AllDone />}
        </ol>
        <Beside />
      </div>
    </Page>
  )
}

function Beside() {
  return (
    <div className="flex min-w-0 flex-col gap-5">
      <CommandLine />
      {useMay('operator') && <OperatorNote />}
    </div>
  )
}

function AllDone() {
  return (
    <li className="rounded-lg border border-good bg-good-soft p-4 text-sm">
      <p className="font-semibold">You have seen it all.</p>
      <p className="mt-1">
        Next: <TextLink to="/deployments/catalog">deploy a model</TextLink>,{' '}
        <TextLink to="/keys">create an API key</TextLink> or <TextLink to="/billing">set a budget</TextLink>.
      </p>
    </li>
  )
}

interface StepProps {
  readonly number: number
  readonly title: string
  readonly isDone: boolean
  /** The first step that is not done. */
  readonly isNext: boolean
  readonly actions: ReactNode
  readonly children: ReactNode
}

function Step({ number, title, isDone, isNext, actions, children }: StepProps) {
  return (
    <li className={cx('flex gap-4 rounded-lg border bg-surface p-4', isNext ? 'border-accent' : 'border-line')}>
      <span
        aria-hidden="true"
        className={cx(
          'flex size-8 shrink-0 items-center justify-center rounded-full text-sm font-semibold',
          isDone ? 'bg-good-soft text-good' : isNext ? 'bg-accent text-on-accent' : 'bg-sunken text-muted',
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
        <div className="grid grid-cols-1 gap-4 lg:grid-cols-2 xl:grid-cols-1">
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
    <Card title="Operator access" actions={<ButtonLink to="/operator">Operator home</ButtonLink>}>
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
